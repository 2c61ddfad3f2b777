// y = x W^T + b with float8 products: x and W in E4M3, the gradient of y in E5M2, each tensor
// scaled by its own largest magnitude when it is used ("per-tensor current scaling", Micikevicius
// et al. 2022), sums in float32. The products are the library's scaled GEMM: libtorch 2.x on GPUs
// of compute capability 8.9 or newer.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace sftbench::ops {

inline constexpr int64_t kFp8Multiple = 16;  // of which in and out must be multiples

// Why float8 products cannot run on `device`, and where they can; empty if they can.
std::string fp8_obstacle(const torch::Device& device);

// x [..., in] bfloat16; weight [out, in] and bias [out] or undefined of any float dtype ->
// [..., out] bfloat16. Differentiable in all three. Keeps x in one byte per element, and only if
// the weight requires a gradient. REQUIRES: fp8_obstacle() found none, or a CPU of libtorch 2.x,
// which has the product, slowly, for tests.
torch::Tensor fp8_linear(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias = {});

}  // namespace sftbench::ops
