// The learning rates of a job as far as they depend on how long it is.
#pragma once

#include <cstdint>

#include "sftbench/optim/schedule.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// Of a run of so many steps. RunError(kUnsupported) as make_schedule's.
Schedule schedule_of(const OptimizerPlan& plan, int64_t total_steps);

// Whether two lengths of a run give other rates in a step that both have.
bool rates_differ(const OptimizerPlan& plan, int64_t total_steps, int64_t other_total_steps);

}  // namespace sftbench
