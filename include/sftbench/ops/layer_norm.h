// LayerNorm (Ba et al. 2016; torch.nn.LayerNorm). Sums are float32 and results are rounded once,
// whatever the dtype: libtorch 1.13 rounds in between.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// x [..., H]; weight, bias [H] of x's dtype -> (x - mean) / sqrt(variance + epsilon) * weight +
// bias, [..., H] in x's dtype. Differentiable in all three. Keeps x and two float32 for each row.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight,
                         const torch::Tensor& bias, double epsilon);

}  // namespace sftbench::ops
