#include "sftbench/simulate/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <string_view>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kLarge = 1e18;
constexpr std::array<std::pair<std::string_view, int>, 7> kSignals = {{{"SEGV", SIGSEGV},
                                                                       {"ABRT", SIGABRT},
                                                                       {"BUS", SIGBUS},
                                                                       {"FPE", SIGFPE},
                                                                       {"ILL", SIGILL},
                                                                       {"KILL", SIGKILL},
                                                                       {"TERM", SIGTERM}}};

// Takes a value's text; returns what would be right when it is not.
using Take = std::function<std::string(std::string_view, SimulationSettings&)>;

struct Setting {
  std::string name;
  Take take;
  std::string help;
};

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

template <typename Member>
Take number(Member SimulationSettings::*member, double least, double most = kLarge) {
  return [=](std::string_view text, SimulationSettings& settings) -> std::string {
    using Number = std::conditional_t<std::is_same_v<Member, int64_t>, int64_t, double>;
    Number value = 0;
    if (parse(text, value) && static_cast<double>(value) >= least &&
        static_cast<double>(value) <= most) {
      settings.*member = value;
      return {};
    }
    const std::string kind = std::is_same_v<Number, int64_t> ? "an integer" : "a number";
    if (most < kLarge) return kind + " from 0 to 1";
    return kind + (least > 0 ? " above 0" : " of at least 0");
  };
}

template <typename Member>
Take chance(Member SimulationSettings::*member) {
  return number(member, 0, 1);
}

std::string take_signal(std::string_view text, SimulationSettings& settings) {
  std::vector<std::string> names;
  for (const auto& [name, number] : kSignals) {
    if (text == name) {
      settings.crash_signal = number;
      return {};
    }
    names.emplace_back(name);
  }
  return "one of " + join(names);
}

constexpr std::array<std::string_view, 6> kFaults = {"none", "oom_gpu", "fail",
                                                     "hang", "crash",   "exit"};

std::string take_faults(std::string_view text, SimulationSettings& settings) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view fault = text.substr(begin, end - begin);
    if (std::find(kFaults.begin(), kFaults.end(), fault) == kFaults.end()) {
      return "a list like oom_gpu,none,crash of " +
             join(std::vector<std::string>(kFaults.begin(), kFaults.end()));
    }
    settings.faults.emplace_back(fault);
    begin = end + 1;
  }
  return {};
}

std::string take_code(std::string_view text, SimulationSettings& settings) {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(ReasonCode::kInternal); ++i) {
    const auto code = static_cast<ReasonCode>(i);
    if (text == to_string(code)) {
      settings.fail = code;
      return {};
    }
    names.emplace_back(to_string(code));
  }
  return "one of " + join(names);
}

const std::vector<Setting>& known_settings() {
  using S = SimulationSettings;
  constexpr double kLeast = std::numeric_limits<double>::min();
  static const std::vector<Setting> kSettings = {
      {"steps", number(&S::steps, 0), "optimization steps, instead of the job's"},
      {"step_s", number(&S::step_s, kLeast),
       "simulated seconds of a step, instead of what predict says"},
      {"flops_per_s", number(&S::flops_per_s, kLeast),
       "speed of a device, instead of what predict says"},
      {"noise", chance(&S::noise), "deviation of a step's time, a fraction of it (0.02)"},
      {"memory_noise", chance(&S::memory_noise),
       "deviation of the memory that a device needs, a fraction of it (0)"},
      {"seed", number(&S::seed, 0), "of noise and chances (42)"},
      {"startup_s", number(&S::startup_s, 0), "real seconds before the first step (0)"},
      {"sleep_s", number(&S::sleep_s, 0), "real seconds of a step (0)"},
      {"allocate_gib", number(&S::allocate_gib, 0), "real memory that is taken and written (0)"},
      {"oom_gpu_above_gib", number(&S::oom_gpu_above_gib, 0),
       "OOM_GPU when a device would need more, instead of what the GPU has"},
      {"oom_host_above_gib", number(&S::oom_host_above_gib, 0),
       "OOM_HOST when the host would need more"},
      {"fail", take_code, "the reason code that every run fails with"},
      {"hang_at_step", number(&S::hang_at_step, 0), "step after which nothing happens any more"},
      {"crash_at_step", number(&S::crash_at_step, 0), "step after which the process crashes"},
      {"crash_signal", take_signal, "with this signal: SEGV, ABRT, BUS, FPE, ILL, KILL, TERM"},
      {"exit_at_step", number(&S::exit_at_step, 0),
       "step after which the process ends without a result"},
      {"faults", take_faults,
       "of the first attempt, the second, ...: none, oom_gpu, fail, hang, crash, exit"},
      {"oom_gpu_probability", chance(&S::oom_gpu_probability), "chance of OOM_GPU, 0 to 1"},
      {"fail_probability", chance(&S::fail_probability), "chance of failing with the code of fail"},
      {"hang_probability", chance(&S::hang_probability), "chance of a hang"},
      {"crash_probability", chance(&S::crash_probability), "chance of a crash"},
  };
  return kSettings;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const Setting& setting : known_settings()) names.push_back(setting.name);
  return names;
}

std::optional<Diagnostic> apply(const std::string& assignment, SimulationSettings& settings) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  for (const Setting& setting : known_settings()) {
    if (setting.name != name) continue;
    if (equals == std::string::npos) {
      return Diagnostic{{}, 0, "--simulate", "'" + name + "' has no value", name + "=VALUE", {}};
    }
    const std::string value = assignment.substr(equals + 1);
    const std::string expected = setting.take(value, settings);
    if (expected.empty()) return std::nullopt;
    return Diagnostic{{}, 0, "--simulate " + name, "found '" + value + "'", expected, {}};
  }
  return Diagnostic{{},
                    0,
                    "--simulate",
                    "unknown setting '" + name + "'",
                    "one of " + join(known_names()),
                    nearest_spelling(name, known_names())};
}

}  // namespace

SimulationSettings parse_simulation(const std::vector<std::string>& assignments) {
  SimulationSettings settings;
  std::vector<Diagnostic> errors;
  for (const std::string& assignment : assignments) {
    if (auto error = apply(assignment, settings)) errors.push_back(std::move(*error));
  }
  if (!errors.empty()) throw InputError(std::move(errors));
  return settings;
}

SimulationSettings settings_of_attempt(const SimulationSettings& settings, int attempt) {
  SimulationSettings of_attempt = settings;
  const auto index = static_cast<size_t>(attempt - 1);
  const std::string fault = index < settings.faults.size() ? settings.faults[index] : "none";
  if (fault == "oom_gpu") of_attempt.oom_gpu_probability = 1;
  if (!settings.faults.empty()) of_attempt.fail.reset();
  if (fault == "fail") of_attempt.fail = settings.fail.value_or(ReasonCode::kInternal);
  if (fault == "hang") of_attempt.hang_at_step = 1;
  if (fault == "crash") of_attempt.crash_at_step = 1;
  if (fault == "exit") of_attempt.exit_at_step = 1;
  return of_attempt;
}

std::string simulation_help() {
  constexpr size_t kColumn = 22;
  std::string text;
  for (const Setting& setting : known_settings()) {
    text +=
        "  " + setting.name + std::string(kColumn - setting.name.size(), ' ') + setting.help + "\n";
  }
  return text;
}

}  // namespace sftbench
