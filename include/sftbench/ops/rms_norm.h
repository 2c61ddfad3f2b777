// Root-mean-square layer normalization (Zhang and Sennrich 2019), as Hugging Face's LlamaRMSNorm
// computes it: statistics in float32, the normalized value cast to the input's dtype, then
// multiplied by the weight.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// x [..., H], weight [H] of x's dtype -> [..., H] of x's dtype. Differentiable in x and weight.
// Keeps x and one float32 per row for the backward. With a float32 weight beside a narrower x all
// of it is computed in float32 and rounded once, as Gemma2RMSNorm does.
torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double epsilon);

struct NormedSum {
  torch::Tensor sum, normed;  // [..., H]
};

// x + scale * addend, and rms_norm() of that sum: a residual stream, and what its next branch
// reads. x and addend have one shape and dtype. Without an addend the sum is x. Differentiable in
// x, addend and weight, as one node: the norm's backward adds the gradient of `sum` to its own,
// which autograd would do in a pass of its own. Keeps the sum and one float32 a row.
NormedSum add_rms_norm(const torch::Tensor& x, const torch::Tensor& addend, double scale,
                       const torch::Tensor& weight, double epsilon);

}  // namespace sftbench::ops
