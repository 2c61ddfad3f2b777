// The norm that gradients are clipped by.
#pragma once

#include <torch/types.h>

#include <vector>

namespace sftbench::ops {

// sqrt(sum of squares of all elements of all tensors), accumulated in float32 blocks and float64 over blocks.
double global_norm(const std::vector<torch::Tensor>& tensors);

}  // namespace sftbench::ops
