// What an implementation of causal attention gives. Shapes as in attention.h; lse [B, H, S] is each
// query's log(sum(exp(score))) in float32 (float64 for float64 inputs), from which the backward
// recomputes the probabilities.
#pragma once

#include <torch/types.h>

#include <array>
#include <utility>

namespace sftbench::ops {

struct AttentionImpl {
  // {output [B, S, H, D], lse}
  std::pair<torch::Tensor, torch::Tensor> (*forward)(const torch::Tensor& q, const torch::Tensor& k,
                                                     const torch::Tensor& v, double scale,
                                                     int64_t window);
  // Gradients of q, k and v.
  std::array<torch::Tensor, 3> (*backward)(const torch::Tensor& output_gradient,
                                           const torch::Tensor& q, const torch::Tensor& k,
                                           const torch::Tensor& v, const torch::Tensor& output,
                                           const torch::Tensor& lse, double scale, int64_t window);
};

extern const AttentionImpl kAttentionCpu;
extern const AttentionImpl kAttentionAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
