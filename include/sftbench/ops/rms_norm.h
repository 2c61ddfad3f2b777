// Root-mean-square layer normalization (Zhang and Sennrich 2019), as Hugging Face's LlamaRMSNorm computes it:
// statistics in float32, the normalized value cast to the input's dtype, then multiplied by the weight.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// x [..., H], weight [H] of x's dtype -> [..., H] of x's dtype. Differentiable in x and weight.
// Keeps x and one float32 per row for the backward.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

struct NormedSum {
  torch::Tensor sum, normed;  // [..., H]
};

// x + scale * addend, and its rms_norm(): a residual stream and what the next branch reads. x and addend of one shape and
// dtype; without an addend the sum is x. One node: in the backward pass the kernel of the norm adds what comes back to the
// sum by other ways, so that autograd has no gradients of the stream to add up. Keeps the sum and one float32 per row.
NormedSum add_rms_norm(const torch::Tensor& x, const torch::Tensor& addend, double scale,
                       const torch::Tensor& weight, double epsilon);

}  // namespace sftbench::ops
