// The short convolution of Mamba-2 (Dao and Gu 2024): each channel is convolved with its own few
// weights over the positions up to its own, as causal-conv1d computes it: summed up in float32 with
// the activation fused, rounded once. Each sequence of a packed row starts anew.
#pragma once

#include <torch/types.h>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

enum class ConvolutionActivation { kNone, kSilu };

// x [B, S, C]; weight [C, K] or, as checkpoints have it, [C, 1, K]; bias [C] or undefined -> y [B,
// S, C] with
//   y[b, s, c] = activation(bias[c] + sum over j of weight[c, j] * x[b, s - K + 1 + j, c])
// where positions before the sequence are 0. All of one dtype. Channels of x must lie side by side,
// rows may be farther apart: a slice of the input projection is read where it lies. Differentiable
// in x, weight and bias. Keeps x. REQUIRES, with packed sequences: B == 1.
torch::Tensor causal_convolution(const torch::Tensor& x, const torch::Tensor& weight,
                                 const torch::Tensor& bias, ConvolutionActivation activation,
                                 const PackedSequences& packed = {});

}  // namespace sftbench::ops
