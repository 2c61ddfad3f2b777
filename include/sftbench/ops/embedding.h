// Token embedding whose backward adds the rows of the tokens that occurred into the weight's
// gradient, instead of making a dense gradient of the whole vocabulary for each micro-batch.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// ids [B, S] int64, weight [V, H] -> [B, S, H]. Differentiable in weight.
torch::Tensor embedding(const torch::Tensor& ids, const torch::Tensor& weight);

}  // namespace sftbench::ops
