// Attention that libtorch brings along: FlashAttention and cuDNN's, for GPUs, from 2.x on. Shapes
// as in attention.h; differentiable by themselves. Dropout is theirs, too: drawn from the device's
// generator, which is seeded for each call, so that a recomputed layer drops the same.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

// Whether there is one for these tensors: none on CPUs and in libtorch 1.13; a sliding window only
// where FlashAttention takes packed sequences.
bool has_library_attention(const torch::Tensor& q, int64_t window, const PackedSequences& packed);

// REQUIRES: has_library_attention().
torch::Tensor library_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, double scale, int64_t window,
                                const PackedSequences& packed, const Dropout& dropout);

// Whether FlashAttention computes these terms: sinks, and no slopes and no cap, without dropout.
bool has_library_sinks(const torch::Tensor& q, const ScoreTerms& terms, const Dropout& dropout);

// The softmax without sinks, and then each query's share that they take: its output and log-sum-exp
// are those of all scores, which the kernel's backward pass begins from. REQUIRES:
// has_library_sinks().
torch::Tensor library_sink_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& sinks,
                                     double scale, int64_t window, const PackedSequences& packed);

// --- in parts ------------------------------------------------------------------------------------

// Whether FlashAttention computes blocks of these queries: half precision on GPUs, without ALiBi,
// without a cap and without dropout.
bool has_library_blocks(const torch::Tensor& q, const PartAttention& attention);

// meet_keys() and add_gradients() of any blocks. REQUIRES: has_library_blocks().
void meet_by_library(AttentionSums& sums, const torch::Tensor& q, const torch::Tensor& k,
                     const torch::Tensor& v, const std::vector<AttentionBlock>& blocks,
                     const PartAttention& attention);
void add_gradients_by_library(AttentionGradients& gradients, const torch::Tensor& output_gradient,
                              const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& output,
                              const torch::Tensor& lse, const std::vector<AttentionBlock>& blocks,
                              const PartAttention& attention);

}  // namespace sftbench::ops
