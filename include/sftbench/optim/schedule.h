// Learning-rate schedules: the factor on the configured rate, by optimisation step.
// Source: transformers.optimization (get_cosine_schedule_with_warmup and its neighbours) under
// torch's LambdaLR, which asks for index 0 before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sftbench {

// 0-based index of the optimisation step -> factor in [0, 1].
using Schedule = std::function<double(int64_t step_index)>;

// "cosine", "linear", "constant" or "constant_with_warmup" over `total_steps`; the first
// ceil(total_steps * warmup_ratio) of them rise linearly from 0.
// RunError(kUnsupported) naming the schedule, what there is and the nearest spelling.
Schedule make_schedule(const std::string& name, int64_t total_steps, double warmup_ratio);

}  // namespace sftbench
