#include "engine/schedule_of.h"

#include <algorithm>

namespace sftbench {

Schedule schedule_of(const OptimizerPlan& plan, int64_t total_steps) {
  return make_schedule(
      {.name = plan.schedule,
       .total_steps = total_steps,
       .warmup_steps = count_warmup_steps(total_steps, plan.warmup_steps, plan.warmup_ratio),
       .learning_rate = plan.learning_rate,
       .options = parse_schedule_options(plan.schedule, plan.schedule_options)});
}

bool rates_differ(const OptimizerPlan& plan, int64_t total_steps, int64_t other_total_steps) {
  if (total_steps == other_total_steps) return false;
  const Schedule one = schedule_of(plan, total_steps), other = schedule_of(plan, other_total_steps);
  const int64_t steps = std::min(total_steps, other_total_steps);
  for (int64_t step = 0; step < steps; ++step) {
    if (one(step) != other(step)) return true;
  }
  return false;
}

}  // namespace sftbench
