// A plain matrix product for updates of parameters: no gradient.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// a [M, K] b [K, N] -> [M, N], summed up in float32 at least and rounded once. Both of one dtype and
// device, each row-major or a transposed view of such.
torch::Tensor matmul(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace sftbench::ops
