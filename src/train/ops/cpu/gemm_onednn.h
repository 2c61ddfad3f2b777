// Matrix products by oneDNN, called directly: libtorch 1.13 gives it bfloat16 only, and at the
// sizes of language models its float32 kernels are a fifth to a third faster than OpenBLAS's
// (bench/results/training-step.md). Part of the build with libtorch 1.13 and oneDNN's headers;
// libtorch 2.x has another oneDNN inside that would clash.
#pragma once

#include <torch/types.h>

#include <string>

namespace sftbench::ops {

// Whether this build calls oneDNN.
#if SFTBENCH_ONEDNN
constexpr bool kCallsOneDnn = true;
#else
constexpr bool kCallsOneDnn = false;
#endif

// True where onednn_multiply takes matrices of this dtype on a CPU, and the instruction set that
// oneDNN may use has products of it.
bool onednn_multiplies(torch::Dtype dtype);

// "2.6.3", of the library that is loaded. Empty where this build calls none.
std::string onednn_version();

// out = a b + bias + beta * out with beta 0 or 1, rounded once. a [M, K], b [K, N], out [M, N]
// of a's dtype or float32; each row-major or a transposed view of such; bias [N] or undefined.
// REQUIRES: CPU tensors of a dtype that onednn_multiplies.
void onednn_multiply(torch::Tensor& out, const torch::Tensor& a, const torch::Tensor& b,
                     const torch::Tensor& bias, double beta);

}  // namespace sftbench::ops
