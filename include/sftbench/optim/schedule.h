// The formulas of learning-rate schedules: the factor on the configured rate, by optimization step.
// Source: transformers.optimization under torch's LambdaLR, which asks for index 0 before the first
// step. Options stand in a training job as `optimizer.schedule_options`; experiments fix the
// cosine.
#pragma once

#include <cstdint>
#include <functional>

#include "sftbench/variants/schedule.h"

namespace sftbench {

// 0-based index of the optimization step -> factor on the learning rate.
using Schedule = std::function<double(int64_t step_index)>;

// RunError(kUnsupported): unknown name (with what there is and the nearest spelling); what
// check_schedule() refuses. REQUIRES: the number of steps is known.
Schedule make_schedule(const SchedulePlan& plan);

}  // namespace sftbench
