// Formulas are evaluated in the order in which Python evaluates them: the factors are the same
// bits.
#include "sftbench/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr double kPi = std::numbers::pi;

[[noreturn]] void refuse(const SchedulePlan& plan, const std::string& problem) {
  throw RunError(ReasonCode::kUnsupported, "learning-rate schedule " + plan.name + ": " + problem);
}

// The part of the warm-up that is done.
double rise(const SchedulePlan& plan, int64_t step) {
  return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, plan.warmup_steps));
}

// Position between the end of the warm-up (0) and the end of the run (1).
double progress(const SchedulePlan& plan, int64_t step) {
  return static_cast<double>(step - plan.warmup_steps) /
         static_cast<double>(std::max<int64_t>(1, plan.total_steps - plan.warmup_steps));
}

double wave(double cycles, double position) {
  return 0.5 * (1.0 + std::cos(kPi * cycles * 2.0 * position));
}

template <typename AfterWarmup>
Schedule warm_up_then(const SchedulePlan& plan, AfterWarmup after) {
  return [=](int64_t step) { return step < plan.warmup_steps ? rise(plan, step) : after(step); };
}

Schedule constant(const SchedulePlan&) {
  return [](int64_t) { return 1.0; };
}

Schedule constant_with_warmup(const SchedulePlan& plan) {
  return warm_up_then(plan, [](int64_t) { return 1.0; });
}

Schedule linear(const SchedulePlan& plan) {
  const auto span = static_cast<double>(std::max<int64_t>(1, plan.total_steps - plan.warmup_steps));
  return warm_up_then(plan, [total = plan.total_steps, span](int64_t step) {
    return std::max(0.0, static_cast<double>(total - step) / span);
  });
}

Schedule cosine(const SchedulePlan& plan) {
  const double cycles = plan.options.num_cycles.value_or(0.5);
  return warm_up_then(
      plan, [=](int64_t step) { return std::max(0.0, wave(cycles, progress(plan, step))); });
}

Schedule cosine_with_restarts(const SchedulePlan& plan) {
  const double cycles = plan.options.num_cycles.value_or(1);
  return warm_up_then(plan, [=](int64_t step) {
    const double position = progress(plan, step);
    if (position >= 1.0) return 0.0;
    return std::max(0.0, 0.5 * (1.0 + std::cos(kPi * std::fmod(cycles * position, 1.0))));
  });
}

// The least rate as a fraction of the learning rate.
double least_rate(const SchedulePlan& plan) {
  const ScheduleOptions& options = plan.options;
  if (options.min_lr.has_value() == options.min_lr_rate.has_value()) {
    refuse(plan, options.min_lr ? "min_lr and min_lr_rate are both set; expected one of them"
                                : "neither min_lr nor min_lr_rate is set; expected one of them");
  }
  return options.min_lr_rate ? *options.min_lr_rate : *options.min_lr / plan.learning_rate;
}

double above(double least, double factor) {
  return std::max(0.0, factor * (1 - least) + least);
}

Schedule cosine_with_min_lr(const SchedulePlan& plan) {
  const double cycles = plan.options.num_cycles.value_or(0.5);
  const double least = least_rate(plan);
  return warm_up_then(
      plan, [=](int64_t step) { return above(least, wave(cycles, progress(plan, step))); });
}

// Its warm-up begins above 0, and the cosine is one step ahead of the others.
Schedule cosine_warmup_with_min_lr(const SchedulePlan& plan) {
  const double cycles = plan.options.num_cycles.value_or(0.5);
  const double least = least_rate(plan);
  return [=, first = plan.options.warmup_lr_rate](int64_t step) {
    if (step >= plan.warmup_steps) return above(least, wave(cycles, progress(plan, step + 1)));
    const auto warmup = static_cast<double>(plan.warmup_steps);
    const auto done = static_cast<double>(step);
    if (!first) return (done + 1.0) / std::max(1.0, warmup);
    return *first + (1.0 - *first) * done / std::max(1.0, warmup - 1);
  };
}

Schedule polynomial(const SchedulePlan& plan) {
  const double first = plan.learning_rate;
  const double end = plan.options.lr_end.value_or(1e-7), power = plan.options.power.value_or(1.0);
  if (end >= first) {
    refuse(plan, "lr_end " + json_text(Json(end)) + " is not below the learning rate " +
                     json_text(Json(first)));
  }
  // transformers divides by zero when the first step after the warm-up is the last of all.
  const auto span = static_cast<double>(plan.total_steps - plan.warmup_steps);
  return warm_up_then(plan, [=](int64_t step) {
    if (step > plan.total_steps || span <= 0) return end / first;
    const double left = 1 - static_cast<double>(step - plan.warmup_steps) / span;
    return ((first - end) * std::pow(left, power) + end) / first;
  });
}

Schedule inverse_sqrt(const SchedulePlan& plan) {
  const int64_t otherwise = plan.warmup_steps > 0 ? plan.warmup_steps : 10000;
  const int64_t timescale = plan.options.timescale.value_or(otherwise);
  if (timescale < 1) refuse(plan, "timescale must be at least 1 step");
  const int64_t shift = timescale - plan.warmup_steps;
  return warm_up_then(plan, [=](int64_t step) {
    return 1.0 / std::sqrt(static_cast<double>(step + shift) / static_cast<double>(timescale));
  });
}

// --- warm-up, plateau, decay (Hu et al. 2024, MiniCPM) ---
using Shape = double (*)(double position, double cycles);

double rising_line(double x, double) {
  return x;
}
double rising_cosine(double x, double) {
  return 0.5 * (1.0 - std::cos(kPi * x));
}
double rising_root(double x, double) {
  return 1.0 - std::sqrt(1.0 - x);
}
double falling_line(double x, double) {
  return 1.0 - x;
}
double falling_cosine(double x, double cycles) {
  return wave(cycles, x);
}
double falling_root(double x, double) {
  return 1.0 - std::sqrt(x);
}

Shape shape(const SchedulePlan& plan, const char* option, const std::string& name, Shape line,
            Shape cosine_shape, Shape root) {
  if (name == "linear") return line;
  if (name == "cosine") return cosine_shape;
  if (name == "1-sqrt") return root;
  refuse(plan, std::string(option) + " '" + name + "' is none of linear, cosine, 1-sqrt");
}

Schedule warmup_stable_decay(const SchedulePlan& plan) {
  const ScheduleOptions& options = plan.options;
  if (!options.num_decay_steps)
    refuse(plan, "num_decay_steps is not set; expected a number of steps");
  const int64_t warmup = plan.warmup_steps, decay = *options.num_decay_steps;
  const int64_t stable = options.num_stable_steps.value_or(plan.total_steps - warmup - decay);
  if (decay < 0 || stable < 0) {
    refuse(plan, "warm-up, num_stable_steps and num_decay_steps are " + std::to_string(warmup) +
                     ", " + std::to_string(stable) + " and " + std::to_string(decay) + " of " +
                     std::to_string(plan.total_steps) + " steps; expected none below 0");
  }
  const Shape rising = shape(plan, "warmup_type", options.warmup_type.value_or("linear"),
                             rising_line, rising_cosine, rising_root);
  const Shape falling = shape(plan, "decay_type", options.decay_type.value_or("cosine"),
                              falling_line, falling_cosine, falling_root);
  const double least = options.min_lr_ratio.value_or(0), cycles = options.num_cycles.value_or(0.5);
  return [=](int64_t step) {
    if (step < warmup) return above(least, rising(rise(plan, step), cycles));
    if (step < warmup + stable) return 1.0;
    if (step >= warmup + stable + decay) return least;
    const double position = static_cast<double>(step - warmup - stable) /
                            static_cast<double>(std::max<int64_t>(1, decay));
    return above(least, falling(position, cycles));
  };
}

struct Row {
  const char* name;
  std::vector<std::string> options;
  Schedule (*make)(const SchedulePlan&);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"constant", {}, constant},
      {"constant_with_warmup", {}, constant_with_warmup},
      {"cosine", {"num_cycles"}, cosine},
      {"cosine_warmup_with_min_lr",
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"},
       cosine_warmup_with_min_lr},
      {"cosine_with_min_lr", {"num_cycles", "min_lr", "min_lr_rate"}, cosine_with_min_lr},
      {"cosine_with_restarts", {"num_cycles"}, cosine_with_restarts},
      {"inverse_sqrt", {"timescale"}, inverse_sqrt},
      {"linear", {}, linear},
      {"polynomial", {"lr_end", "power"}, polynomial},
      {"warmup_stable_decay",
       {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio",
        "num_cycles"},
       warmup_stable_decay},
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

}  // namespace

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

Schedule make_schedule(const SchedulePlan& plan) {
  return row_of(plan.name).make(plan);
}

}  // namespace sftbench
