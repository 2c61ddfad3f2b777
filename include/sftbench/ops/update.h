// One step of an element-wise optimizer (update_rule.h) over a list of tensors, in one pass over
// memory: everything is read once, computed in float32 and rounded once when it is stored.
#pragma once

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

}  // namespace sftbench::ops
