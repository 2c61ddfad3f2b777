// Matrix products that are no linears.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// For updates of parameters, without a gradient: a [M, K] b [K, N] -> [M, N], summed up in float32
// at least and rounded once. Both of one dtype and device, each row-major or a transposed view of
// such.
torch::Tensor matmul(const torch::Tensor& a, const torch::Tensor& b);

// a [..., M, K] b [..., K, N] -> [..., M, N] of a's dtype, summed up in float32 at least and
// rounded once; with gradients. Without instructions for the dtype, libtorch 1.13 multiplies no
// float16 matrices, and keeps the sums of bfloat16 products in bfloat16.
torch::Tensor batched_matmul(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace sftbench::ops
