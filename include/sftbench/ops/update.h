// One step of an element-wise optimizer (update_rule.h) over a list of tensors, in one pass over
// memory: everything is read once, computed in float32 and rounded once when it is stored.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/ops/tensor.h"
#include "sftbench/ops/update_rule.h"

namespace sftbench::ops {

// States are of the parameter's shape, in its dtype or in float32; parameter and states are updated
// in place, the gradient is only read.
struct UpdatedTensor {
  torch::Tensor parameter, gradient;
  std::vector<torch::Tensor> states;
};

// std::invalid_argument when a gradient or a state does not match its parameter.
void update(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
            const RuleFactors<double>& factors);

// Factors as a tensor: RuleFactors<float>'s members in their order.
inline constexpr int64_t kRuleFactors = sizeof(RuleFactors<float>) / sizeof(float);

// The same with factors [kRuleFactors] float32 that are read when the GPU gets there, for graphs
// that repeat the update. Where gradient_scale is NaN nothing changes. std::invalid_argument too
// where update() has no kernel of its own: tensors on CPUs, in float64, or not contiguous.
void repeatable_update(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
                       const torch::Tensor& factors);

}  // namespace sftbench::ops
