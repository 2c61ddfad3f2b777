// What an implementation of the causal convolution gives.
#pragma once

#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct ConvolutionInputs {
  torch::Tensor x;     // [B, S, C], channels side by side, rows of all batches equally far apart
  torch::Tensor taps;  // [K, C], the weights in the wide dtype, the last one of the position itself
  torch::Tensor bias;  // [C] in the wide dtype, or undefined
  bool silu = false;
  std::vector<int64_t> offsets;  // those of PackedSequences
  torch::Tensor cumulative;      // the same on x's device, or undefined
};

struct ConvolutionGradients {
  torch::Tensor x;           // [B, S, C] of x's dtype
  torch::Tensor taps, bias;  // in the wide dtype
};

struct ConvolutionImpl {
  torch::Tensor (*forward)(const ConvolutionInputs& in);
  ConvolutionGradients (*backward)(const torch::Tensor& y_gradient, const ConvolutionInputs& in);
};

extern const ConvolutionImpl kConvolutionCpu;
extern const ConvolutionImpl kConvolutionCuda;  // in the CUDA flavor; not for float64
extern const ConvolutionImpl kConvolutionAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
