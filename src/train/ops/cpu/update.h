// The loops behind update.h and adafactor.h for CPUs: like kernels.h one table per instruction
// set, chosen at run time (update_dispatch.h), in files of its own. They work on contiguous
// ranges and know nothing of threads or tensors.
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.h"
#include "sftbench/ops/update_rule.h"

namespace sftbench::ops {

using UpdateLoop = void (*)(void* parameter, const void* gradient, void* const* states, int64_t n,
                            const RuleFactors<float>& factors);

struct CpuUpdateKernels {
  UpdateLoop update[kUpdateRules];  // states in the parameter's dtype
  UpdateLoop update_float_states[kUpdateRules];

  // Adafactor's three passes over a row of the gradient matrix, u = (gradient * scale)^2 + floor:
  // adds u to the column sums and returns its sum;
  float (*factored_squares)(const void* gradient, float* column_sums, int64_t n, float scale,
                            float floor);
  // returns the sum of (gradient * column_factors)^2;
  float (*factored_norm)(const void* gradient, const float* column_factors, int64_t n);
  // parameter = parameter * decay - gradient * column_factors * step_size.
  void (*factored_apply)(void* parameter, const void* gradient, const float* column_factors,
                         int64_t n, float step_size, float decay);
};

}  // namespace sftbench::ops
