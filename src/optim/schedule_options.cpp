// lr_scheduler_kwargs: JSON -> ScheduleOptions.
#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/optim/schedule.h"

namespace sftbench {
namespace {

[[noreturn]] void refuse(const std::string& schedule, const std::string& problem) {
  throw RunError(ReasonCode::kUnsupported, "learning-rate schedule " + schedule + ": " + problem);
}

class OptionReader {
 public:
  OptionReader(const std::string& schedule, const Json& options)
      : schedule_(schedule), options_(options) {}

  void number(const char* name, std::optional<double>& value) {
    if (const Json* found = find(name, "a number", &Json::is_number)) value = found->get<double>();
  }

  void steps(const char* name, std::optional<int64_t>& value) {
    if (const Json* found = find(name, "a number of steps", &Json::is_number_integer))
      value = found->get<int64_t>();
  }

  void text(const char* name, std::optional<std::string>& value) {
    if (const Json* found = find(name, "a text", &Json::is_string))
      value = found->get<std::string>();
  }

 private:
  const Json* find(const char* name, const char* expected, bool (Json::*fits)() const noexcept) {
    const auto found = options_.find(name);
    if (found == options_.end()) return nullptr;
    if (!(*found.*fits)()) {
      refuse(schedule_,
             "option " + std::string(name) + ": found " + found->dump() + "; expected " + expected);
    }
    return &*found;
  }

  const std::string& schedule_;
  const Json& options_;
};

void require_known(const std::string& schedule, const Json& options) {
  const std::vector<std::string> known = schedule_options(schedule);
  for (const auto& [name, value] : options.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = nearest_spelling(name, known);
    refuse(schedule, "no option '" + name + "'; " +
                         (known.empty() ? "it has none" : "there are " + join(known)) +
                         (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
}

}  // namespace

ScheduleOptions parse_schedule_options(const std::string& schedule, const Json& options) {
  require_known(schedule, options);
  OptionReader reader(schedule, options);
  ScheduleOptions parsed;
  reader.number("num_cycles", parsed.num_cycles);
  reader.number("min_lr", parsed.min_lr);
  reader.number("min_lr_rate", parsed.min_lr_rate);
  reader.number("warmup_lr_rate", parsed.warmup_lr_rate);
  reader.number("lr_end", parsed.lr_end);
  reader.number("power", parsed.power);
  reader.steps("timescale", parsed.timescale);
  reader.steps("num_stable_steps", parsed.num_stable_steps);
  reader.steps("num_decay_steps", parsed.num_decay_steps);
  reader.text("warmup_type", parsed.warmup_type);
  reader.text("decay_type", parsed.decay_type);
  reader.number("min_lr_ratio", parsed.min_lr_ratio);
  return parsed;
}

}  // namespace sftbench
