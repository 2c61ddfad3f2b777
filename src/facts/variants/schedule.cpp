#include "sftbench/variants/schedule.h"

#include <algorithm>
#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

struct Row {
  const char* name;
  std::vector<std::string> options;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"constant", {}},
      {"constant_with_warmup", {}},
      {"cosine", {"num_cycles"}},
      {"cosine_warmup_with_min_lr", {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"}},
      {"cosine_with_min_lr", {"num_cycles", "min_lr", "min_lr_rate"}},
      {"cosine_with_restarts", {"num_cycles"}},
      {"inverse_sqrt", {"timescale"}},
      {"linear", {}},
      {"polynomial", {"lr_end", "power"}},
      {"warmup_stable_decay",
       {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio",
        "num_cycles"}},
  };
  return kRows;
}

const Row& row_of(const std::string& name) {
  for (const Row& row : rows()) {
    if (row.name == name) return row;
  }
  for (const char* measured : {"reduce_lr_on_plateau", "greedy"}) {
    if (name != measured) continue;
    throw RunError(ReasonCode::kUnsupported,
                   "learning-rate schedule " + name +
                       " follows evaluations, and a benchmark has none; cosine works");
  }
  throw unsupported_choice("learning-rate schedule", name, schedule_names());
}

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
      refuse(schedule_, "option " + std::string(name) + ": found " + json_text(*found) +
                            "; expected " + expected);
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

// --- what a formula is made for

void check_least_rate(const SchedulePlan& plan) {
  const ScheduleOptions& options = plan.options;
  if (options.min_lr.has_value() != options.min_lr_rate.has_value()) return;
  refuse(plan.name, options.min_lr ? "min_lr and min_lr_rate are both set; expected one of them"
                                   : "neither min_lr nor min_lr_rate is set; expected one of them");
}

void check_polynomial(const SchedulePlan& plan) {
  const double end = plan.options.lr_end.value_or(kUsualLrEnd);
  if (end < plan.learning_rate) return;
  refuse(plan.name, "lr_end " + json_text(Json(end)) + " is not below the learning rate " +
                        json_text(Json(plan.learning_rate)));
}

void check_shape(const SchedulePlan& plan, const char* option,
                 const std::optional<std::string>& shape) {
  const std::vector<std::string> known = {"linear", "cosine", "1-sqrt"};
  if (!shape || std::find(known.begin(), known.end(), *shape) != known.end()) return;
  refuse(plan.name, std::string(option) + " '" + *shape + "' is none of " + join(known));
}

void check_phases(const SchedulePlan& plan) {
  const ScheduleOptions& options = plan.options;
  if (!options.num_decay_steps)
    refuse(plan.name, "num_decay_steps is not set; expected a number of steps");
  const bool known = plan.total_steps >= 0;
  const int64_t decay = *options.num_decay_steps;
  const int64_t rest = known ? plan.total_steps - plan.warmup_steps - decay : 0;
  const int64_t stable = options.num_stable_steps.value_or(rest);
  if (decay < 0 || stable < 0) {
    const std::string phases =
        known ? "warm-up, num_stable_steps and num_decay_steps are " +
                    std::to_string(plan.warmup_steps) + ", " + std::to_string(stable) + " and " +
                    std::to_string(decay) + " of " + counted(plan.total_steps, "step")
              : "num_stable_steps and num_decay_steps are " + std::to_string(stable) + " and " +
                    std::to_string(decay);
    refuse(plan.name, phases + "; expected none below 0");
  }
  check_shape(plan, "warmup_type", options.warmup_type);
  check_shape(plan, "decay_type", options.decay_type);
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

void check_schedule(const SchedulePlan& plan) {
  const std::string& name = plan.name;
  if (name == "cosine_with_min_lr" || name == "cosine_warmup_with_min_lr") check_least_rate(plan);
  if (name == "polynomial") check_polynomial(plan);
  if (name == "inverse_sqrt" && plan.options.timescale.value_or(1) < 1)
    refuse(name, "timescale must be at least 1 step");
  if (name == "warmup_stable_decay") check_phases(plan);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> schedule_options(const std::string& schedule) {
  return row_of(schedule).options;
}

int64_t count_warmup_steps(int64_t total_steps, int64_t steps, double ratio) {
  if (steps > 0) return steps;
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * ratio));
}

}  // namespace sftbench
