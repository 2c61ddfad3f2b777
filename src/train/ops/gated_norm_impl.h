// What an implementation of the gated norm gives, for N rows of G groups of W channels:
//   y       [N, G, W], contiguous
//   gate    of y's shape and dtype, channels side by side, rows any number of elements apart
//   weight  [G, W] in the wide dtype, contiguous
//   rstd    [N, G] in the wide dtype: 1 / sqrt(mean(v^2) + epsilon)
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct GatedNormGradients {
  torch::Tensor y, gate;  // [N, G, W] of y's dtype, contiguous
  torch::Tensor weight;   // [G, W] in the wide dtype
};

struct GatedNormImpl {
  void (*forward)(const torch::Tensor& y, const torch::Tensor& gate, const torch::Tensor& weight,
                  double epsilon, torch::Tensor& out, torch::Tensor& rstd);
  GatedNormGradients (*backward)(const torch::Tensor& out_gradient, const torch::Tensor& y,
                                 const torch::Tensor& gate, const torch::Tensor& weight,
                                 const torch::Tensor& rstd);
};

extern const GatedNormImpl kGatedNormCpu;
extern const GatedNormImpl kGatedNormCuda;  // in the CUDA flavor; not for float64
extern const GatedNormImpl kGatedNormAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
