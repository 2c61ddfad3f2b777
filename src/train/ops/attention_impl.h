// What an implementation of causal attention gives. Shapes as in attention.h; `offsets` are those
// of PackedSequences. lse holds each query's log(sum(exp(score))), from which the backward
// recomputes the probabilities: one float32 (float64 for float64 inputs) per query and head, in an
// order that only the implementation knows. It counts sinks. Terms are in the wide dtype.
#pragma once

#include <torch/types.h>

#include <array>
#include <utility>
#include <vector>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

struct AttentionImpl {
  // {output [B, S, H, D], lse}
  std::pair<torch::Tensor, torch::Tensor> (*forward)(const torch::Tensor& q, const torch::Tensor& k,
                                                     const torch::Tensor& v, double scale,
                                                     int64_t window,
                                                     const std::vector<int64_t>& offsets,
                                                     const Dropout& dropout,
                                                     const ScoreTerms& terms);
  // Gradients of q, k, v and, where there are any, of the sinks in lse's dtype.
  std::array<torch::Tensor, 4> (*backward)(const torch::Tensor& output_gradient,
                                           const torch::Tensor& q, const torch::Tensor& k,
                                           const torch::Tensor& v, const torch::Tensor& output,
                                           const torch::Tensor& lse, double scale, int64_t window,
                                           const std::vector<int64_t>& offsets,
                                           const Dropout& dropout, const ScoreTerms& terms);

  // meet_keys() and add_gradients() for blocks of which no two have a query or a key in common.
  void (*meet)(AttentionSums& sums, const torch::Tensor& q, const torch::Tensor& k,
               const torch::Tensor& v, const std::vector<AttentionBlock>& blocks,
               const PartAttention& attention);
  void (*add_gradients)(AttentionGradients& gradients, const torch::Tensor& output_gradient,
                        const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                        const torch::Tensor& output, const torch::Tensor& lse,
                        const std::vector<AttentionBlock>& blocks, const PartAttention& attention);
};

// The sinks' gradient: of delta, output times its gradient summed up by head [B, S, H], and lse
// [B, H, S].
torch::Tensor sink_gradient(const torch::Tensor& sinks, const torch::Tensor& delta,
                            const torch::Tensor& lse);

extern const AttentionImpl kAttentionCpu;
extern const AttentionImpl kAttentionAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
