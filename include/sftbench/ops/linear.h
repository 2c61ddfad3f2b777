// y = x W^T + b. The weight's gradient is accumulated by the GEMM itself into the gradient that is
// already there (Megatron's "gradient accumulation fusion"), so accumulation over micro-batches
// costs no extra pass over memory.
#pragma once

#include <torch/types.h>

#include <vector>

namespace sftbench::ops {

// x [..., in], weight [out, in], bias [out] or undefined -> [..., out]. Differentiable in all
// three. Keeps x only if the weight requires a gradient, and computes no gradient that nobody
// needs. The result is a tensor of its own: low_rank.h adds to it in place. On CPUs float16 is
// computed in float32 (libtorch 1.13 has no half-precision GEMM there) and stored in float16.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias = {});

// y = x W + b of a weight [in, out], as GPT-2 stores it, and a bias [out]. Otherwise as linear().
torch::Tensor transposed_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias);

// weight, and bias or undefined, of a linear.
struct LinearOperands {
  torch::Tensor weight, bias;
};

// linear() of each on the same x, as one node: the products of its backward add up in x's gradient,
// where autograd would add up tensors. An output without a gradient adds nothing.
std::vector<torch::Tensor> linears(const torch::Tensor& x,
                                   const std::vector<LinearOperands>& linears);

}  // namespace sftbench::ops
