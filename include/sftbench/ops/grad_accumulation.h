// Gradients of parameters, added where they belong while they are computed (Megatron's "gradient
// accumulation fusion"): an operator's backward writes into parameter.grad() itself and hands
// autograd nothing, so a further micro-batch costs no temporary and no extra pass over memory.
//
// Contract. Only leaves that require a gradient are treated so; for any other tensor (a cast made
// under autocast, a merged adapter) the gradient is returned to autograd as usual. What follows for
// a leaf:
//   - call backward(); torch::autograd::grad() on such a leaf finds no gradient;
//   - tensor hooks on the leaf do not see the gradient; post hooks of its AccumulateGrad node run
//   as ever, after the
//     last contribution;
//   - a gradient that is already there is added to in place, so a view into a flat buffer stays
//   one.
#pragma once

#include <torch/types.h>

#include <functional>

namespace sftbench::ops {

// True if backward functions add into parameter.grad() themselves.
bool accumulates_in_place(const torch::Tensor& parameter);

// Computes a parameter's gradient where it belongs. `compute(target, beta)` must leave
// beta * target + gradient in target, which has the parameter's shape and dtype. beta is 1, or 0:
// then target is uninitialized, and compute may put another tensor in its place. Returns what the
// backward must return for the parameter: undefined for a leaf, the gradient otherwise.
using GradientInto = std::function<void(torch::Tensor& target, double beta)>;
torch::Tensor accumulate_gradient(const torch::Tensor& parameter, const GradientInto& compute);

}  // namespace sftbench::ops
