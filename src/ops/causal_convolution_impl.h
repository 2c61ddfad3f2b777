// What an implementation of the causal convolution gives. x [B, S, C] with channels side by side and
// rows of all batches equally far apart; taps [K, C] are the weights in the wide dtype, the last one
// of the position itself; bias [C] in the wide dtype, or undefined. `offsets` are those of
// PackedSequences.
#pragma once

#include <torch/types.h>

#include <vector>

namespace sftbench::ops {

struct ConvolutionGradients {
  torch::Tensor x;           // [B, S, C] of x's dtype
  torch::Tensor taps, bias;  // in the wide dtype
};

struct ConvolutionImpl {
  torch::Tensor (*forward)(const torch::Tensor& x, const torch::Tensor& taps,
                           const torch::Tensor& bias, bool silu,
                           const std::vector<int64_t>& offsets);
  ConvolutionGradients (*backward)(const torch::Tensor& y_gradient, const torch::Tensor& x,
                                   const torch::Tensor& taps, const torch::Tensor& bias, bool silu,
                                   const std::vector<int64_t>& offsets);
};

extern const ConvolutionImpl kConvolutionCpu;
extern const ConvolutionImpl kConvolutionAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
