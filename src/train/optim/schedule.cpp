// Formulas are evaluated in the order in which Python evaluates them: the factors are the same
// bits.
#include "sftbench/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr double kPi = std::numbers::pi;

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
  const double end = plan.options.lr_end.value_or(kUsualLrEnd);
  const double power = plan.options.power.value_or(1.0);
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

Shape shape(const std::string& name, Shape line, Shape cosine_shape, Shape root) {
  if (name == "linear") return line;
  return name == "cosine" ? cosine_shape : root;
}

Schedule warmup_stable_decay(const SchedulePlan& plan) {
  const ScheduleOptions& options = plan.options;
  const int64_t warmup = plan.warmup_steps, decay = *options.num_decay_steps;
  const int64_t stable = options.num_stable_steps.value_or(plan.total_steps - warmup - decay);
  const Shape rising =
      shape(options.warmup_type.value_or("linear"), rising_line, rising_cosine, rising_root);
  const Shape falling =
      shape(options.decay_type.value_or("cosine"), falling_line, falling_cosine, falling_root);
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

using Make = Schedule (*)(const SchedulePlan&);

Make maker_of(const std::string& name) {
  static const std::map<std::string, Make> kMakers = {
      {"constant", constant},
      {"constant_with_warmup", constant_with_warmup},
      {"cosine", cosine},
      {"cosine_warmup_with_min_lr", cosine_warmup_with_min_lr},
      {"cosine_with_min_lr", cosine_with_min_lr},
      {"cosine_with_restarts", cosine_with_restarts},
      {"inverse_sqrt", inverse_sqrt},
      {"linear", linear},
      {"polynomial", polynomial},
      {"warmup_stable_decay", warmup_stable_decay},
  };
  const auto found = kMakers.find(name);
  check(found != kMakers.end(), "each schedule of variants/schedule.h has its formula here");
  return found->second;
}

}  // namespace

Schedule make_schedule(const SchedulePlan& plan) {
  (void)schedule_options(plan.name);  // refuses an unknown one
  check_schedule(plan);
  return maker_of(plan.name)(plan);
}

}  // namespace sftbench
