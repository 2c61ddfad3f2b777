// Mixers of rows whose earlier positions a DecodingState knows. Without gradients, dropout and
// packed rows. Shapes: B batch, S further positions, H query heads, K key/value heads, D head.
#pragma once

#include <torch/types.h>

#include "sftbench/model/decoding_state.h"
#include "sftbench/ops/attention.h"
#include "sftbench/ops/causal_convolution.h"

namespace sftbench {

// As ops::causal_attention: q [B, S, H, D] of all keys so far, k and v [B, S, K, D] of these
// positions.
torch::Tensor decode_attention(DecodingState& state, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, double scale, int64_t window,
                               const ops::ScoreTerms& terms);

// As ops::causal_convolution, x [B, S, C].
torch::Tensor decode_convolution(DecodingState& state, const torch::Tensor& x,
                                 const torch::Tensor& weight, const torch::Tensor& bias,
                                 ops::ConvolutionActivation activation);

// As ops::state_space_scan, x [B, S, N, P], position by position.
torch::Tensor decode_scan(DecodingState& state, const torch::Tensor& x, const torch::Tensor& dt,
                          const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& c,
                          const torch::Tensor& d);

}  // namespace sftbench
