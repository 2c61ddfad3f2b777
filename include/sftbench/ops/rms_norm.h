// Root-mean-square layer normalization (Zhang and Sennrich 2019), as Hugging Face's LlamaRMSNorm computes it:
// statistics in float32, the normalized value cast to the input's dtype, then multiplied by the weight.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// x [..., H], weight [H] of x's dtype -> [..., H] of x's dtype. Differentiable in x and weight.
// Keeps x and one float32 per row for the backward.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

}  // namespace sftbench::ops
