// Learning-rate schedules under their Hugging Face names (lr_scheduler_type) and what options they
// take (lr_scheduler_kwargs). optim/schedule.h has their formulas. Source:
// transformers.optimization.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

inline constexpr double kUsualLrEnd = 1e-7;  // where a polynomial ends

// What is not set has transformers' default. Each schedule has its own ones; see
// schedule_options().
struct ScheduleOptions {
  std::optional<double> num_cycles;         // waves of a cosine (0.5); of its restarts (1)
  std::optional<double> min_lr;             // where a cosine ends; this
  std::optional<double> min_lr_rate;        //   or that as a fraction of the learning rate
  std::optional<double> warmup_lr_rate;     // cosine_warmup_with_min_lr: where its warm-up starts
  std::optional<double> lr_end;             // polynomial: kUsualLrEnd
  std::optional<double> power;              // polynomial: 1
  std::optional<int64_t> timescale;         // inverse_sqrt: the warm-up's steps, 10000 without one
  std::optional<int64_t> num_stable_steps;  // warmup_stable_decay: what the other two phases leave
  std::optional<int64_t> num_decay_steps;   // warmup_stable_decay: must be given
  std::optional<std::string> warmup_type;   // warmup_stable_decay: linear
  std::optional<std::string> decay_type;    // warmup_stable_decay: cosine
  std::optional<double> min_lr_ratio;       // warmup_stable_decay: where it begins and ends (0)
};

// Names of all schedules, sorted, and of the options that one of them takes.
// RunError(kUnsupported): unknown name (with what there is and the nearest spelling).
std::vector<std::string> schedule_names();
std::vector<std::string> schedule_options(const std::string& schedule);

// RunError(kUnsupported) for an option that the schedule does not have (with the nearest spelling)
// or that is of another type.
ScheduleOptions parse_schedule_options(const std::string& schedule, const Json& options);

struct SchedulePlan {
  std::string name = "cosine";
  int64_t total_steps = 0;   // of optimization; negative: not known yet
  int64_t warmup_steps = 0;  // not known where total_steps is not
  double learning_rate = 0;  // that the factor is on: min_lr and lr_end are relative to it
  ScheduleOptions options;
};

// RunError(kUnsupported) for options that contradict each other, are missing, or lie outside what
// the formula is defined for: before a run by all that is known then, and again when it begins.
void check_schedule(const SchedulePlan& plan);

// Trainer.get_warmup_steps: `steps` where they are given, else ceil(total_steps * ratio).
int64_t count_warmup_steps(int64_t total_steps, int64_t steps, double ratio);

}  // namespace sftbench
