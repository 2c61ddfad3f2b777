// The norm that gradients are clipped by.
#pragma once

#include <torch/types.h>

#include <vector>

namespace sftbench::ops {

// sqrt(sum of squares of all elements of all tensors), accumulated in float32 blocks and float64
// over blocks.
double global_norm(const std::vector<torch::Tensor>& tensors);

// The same as a float64 scalar on the tensors' device, which the host does not wait for. `tensors`
// is not empty.
torch::Tensor global_norm_on_device(const std::vector<torch::Tensor>& tensors);

}  // namespace sftbench::ops
