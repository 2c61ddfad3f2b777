// Matrix products by our own CPU kernels, for dtypes that the processor cannot multiply: operands
// are widened to float32 panel by panel, in cache, and the result is rounded once.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// True where cpu_multiply is the best product that there is of matrices of this dtype on a CPU:
// float16 on every processor, bfloat16 on one without instructions for it, and whatever oneDNN has
// no kernels for.
bool cpu_multiplies(torch::Dtype dtype);

// out = a b + bias + beta * out with beta 0 or 1, summed up in float32 and rounded once. a [M, K],
// b [K, N], out [M, N] of a's dtype or float32; each row-major or a transposed view of such; bias
// [N] of a's dtype or undefined. REQUIRES: CPU tensors of float32, bfloat16 or float16.
void cpu_multiply(torch::Tensor& out, const torch::Tensor& a, const torch::Tensor& b,
                  const torch::Tensor& bias, double beta);

}  // namespace sftbench::ops
