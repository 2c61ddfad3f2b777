// Mamba-2 over rows that ranks divide: the convolution reads a few positions that the rank of the
// chunk before has, and the scan starts from the state that all chunks before lead to.
//
// All ranks scan their chunks at once, each from an empty state. They gather two things of every
// chunk: what it adds to the state, and by how much it lets an earlier state decay. A prefix over
// chunks gives each rank the states that its chunks start from. The scan is linear in its state, so
// that what such a state gives to the positions is added afterwards. Source: Dao and Gu 2024,
// section 8.2.
#pragma once

#include <torch/types.h>

#include "sftbench/model/context_group.h"
#include "sftbench/ops/causal_convolution.h"

namespace sftbench {

// As ops::causal_convolution, of this rank's positions of rows. Collective, in both passes.
torch::Tensor context_convolution(const ContextPart& part, const torch::Tensor& x,
                                  const torch::Tensor& weight, const torch::Tensor& bias,
                                  ops::ConvolutionActivation activation);

// As ops::state_space_scan. Collective, in both passes.
torch::Tensor context_scan(const ContextPart& part, const torch::Tensor& x, const torch::Tensor& dt,
                           const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& c,
                           const torch::Tensor& d);

}  // namespace sftbench
