// The forward product of a linear without a graph, for nodes that hold more than one.
#pragma once

#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// linear() of linear.h: a tensor of its own, zeros where nobody needs the values (recomputation.h).
torch::Tensor linear_rows(const torch::Tensor& x, const torch::Tensor& weight,
                          const torch::Tensor& bias);

// The gradient of x [M, in] through frozen linears, added to `sum` in place where that is defined.
// Undefined gradients add nothing; undefined where there is nothing to add up.
torch::Tensor input_gradient(const std::vector<torch::Tensor>& output_gradients,
                             const std::vector<torch::Tensor>& weights, torch::Tensor sum = {});

}  // namespace sftbench::ops
