// What an implementation of RMSNorm gives. Contiguous rows x, y [N, H] of one dtype, weight [H];
// rstd [N] is 1 / sqrt(mean(x^2) + epsilon) in float32 (float64 for float64 rows).
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// What is normalized: x, or sum = x + scale * addend, which forward() writes.
struct RmsNormInput {
  torch::Tensor x, addend, sum;  // addend and sum are undefined where it is x
  double scale = 1;
};

// Writes the sum by a stock operator where there is one, and returns what is to be normalized.
const torch::Tensor& add_up(const RmsNormInput& input);

struct RmsNormGradients {
  torch::Tensor x;       // [N, H] of x's dtype: of what was normalized
  torch::Tensor weight;  // [H] in rstd's dtype, or undefined where it was not asked for
};

struct RmsNormImpl {
  void (*forward)(const RmsNormInput& input, const torch::Tensor& weight, double epsilon,
                  torch::Tensor& y, torch::Tensor& rstd);
  // x_gradient, [N, H] or undefined, is added to the gradient of x.
  RmsNormGradients (*backward)(const torch::Tensor& y_gradient, const torch::Tensor& x_gradient,
                               const torch::Tensor& x, const torch::Tensor& weight,
                               const torch::Tensor& rstd, bool weight_too);
};

extern const RmsNormImpl kRmsNormCpu;
extern const RmsNormImpl kRmsNormCuda;  // in the CUDA flavor; not for float64
extern const RmsNormImpl kRmsNormAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
