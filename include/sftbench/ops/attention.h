// Causal grouped-query attention that never holds the S x S scores of all heads: tiles of queries
// and keys with a running softmax (Dao et al. 2022). Softmax in float32, as in Hugging Face's
// attention. A row may hold several sequences one behind the other (packed batches): none sees
// another, and what it costs is the sum of their squares.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/row_segment.h"
#include "sftbench/ops/dropout.h"

namespace sftbench::ops {

// The sequences of a packed row, in order. Without any, every row is one sequence.
struct PackedSequences {
  std::vector<int64_t> offsets;  // [n + 1] 0, first position of each further sequence, S
  torch::Tensor cumulative;      // the same, int32, on the device that attention runs on
  int64_t longest = 0;           // positions of the longest

  bool empty() const { return offsets.empty(); }
};

// Of the lengths of the sequences, all above 0. No lengths: no packed row.
PackedSequences packed_sequences(const std::vector<int64_t>& lengths, torch::Device device);

// What some families add to the scores of a head.
struct ScoreTerms {
  // [H] float32: slopes of ALiBi (Press et al. 2022, bloom). A key at distance n from the query
  // loses slope * n. Hugging Face adds slope * key, which differs by a number that is the same for
  // all keys of a query (and is not the same thing beside a sink; no family has both). No gradient.
  torch::Tensor slopes;
  // [H] of q's dtype or float32: sinks of gpt_oss, one more score in each softmax whose probability
  // goes nowhere. Differentiable.
  torch::Tensor sinks;
  // Scores become cap tanh(score / cap) before all else (Gemma 2); 0: they stay. Slopes come with
  // no cap.
  double cap = 0;

  bool empty() const { return !slopes.defined() && !sinks.defined() && cap == 0; }
};

inline constexpr int64_t kAllKeys = 0;  // a window without an end

// q [B, S, H, D]; k, v [B, S, K, D] with K dividing H: query head h reads key/value head h / (H /
// K). scale: factor on the scores. window: number of keys that a query sees, itself included
// (Mistral's sliding window), or kAllKeys. Position i sees positions j of its sequence with j <= i
// and i - j < window. Returns [B, S, H, D]. REQUIRES, with packed sequences: B == 1. dropout: of
// probabilities after the softmax, as Hugging Face's attention_dropout in training. No padding
// mask: with right padding and causality no real position sees a padded one. Differentiable in q,
// k, v and the sinks of `terms`. Keeps them, the output and one float32 (log-sum-exp) per query and
// head.
torch::Tensor causal_attention(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, double scale, int64_t window = kAllKeys,
                               const PackedSequences& packed = {}, const Dropout& dropout = {},
                               const ScoreTerms& terms = {});

// The same of all positions to all: no position is hidden from another (SiglipAttention,
// CLIPAttention).
torch::Tensor full_attention(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                             double scale);

// --- in parts ------------------------------------------------------------------------------------
//
// Where the positions of a sequence are divided among several holders (context parallelism),
// queries meet keys part by part: sums over the keys seen so far go on with the next ones, in any
// order, and end as causal_attention's result.

struct PartAttention {
  double scale = 1;
  int64_t window = kAllKeys;
  Dropout dropout = {};
  torch::Tensor slopes = {};  // as ScoreTerms has them, in the wide dtype
  int64_t row_length = 0;     // of the whole row: what dropout counts with
  double cap = 0;             // as ScoreTerms has it
};

// Of queries [B, S, H, D] over the keys that they have met. Wide: float32, float64 for float64
// queries.
struct AttentionSums {
  torch::Tensor output;  // [B, S, H, D], as if there were no other keys
  torch::Tensor lse;     // [B, H, S] log(sum(exp(score))); -infinity: no key was seen
};

AttentionSums no_keys(const torch::Tensor& q);

// Queries meet keys, block by block; no block twice. q [B, S, H, D], k and v [B, any, K, D],
// contiguous and of one dtype.
void meet_keys(AttentionSums& sums, const torch::Tensor& q, const torch::Tensor& k,
               const torch::Tensor& v, const std::vector<AttentionBlock>& blocks,
               const PartAttention& attention);

// Once all keys were met: sinks [H] in the wide dtype, one more score for each query.
void meet_sinks(AttentionSums& sums, const torch::Tensor& sinks);

// Wide, added to by each call.
struct AttentionGradients {
  torch::Tensor q;     // [B, S, H, D]
  torch::Tensor k, v;  // as the keys that are met
};

// Of the queries and keys of `blocks`, given what all keys led to: output in q's dtype and lse,
// sinks included.
void add_gradients(AttentionGradients& gradients, const torch::Tensor& output_gradient,
                   const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                   const torch::Tensor& output, const torch::Tensor& lse,
                   const std::vector<AttentionBlock>& blocks, const PartAttention& attention);

// Of the sinks [H], wide.
torch::Tensor gradient_of_sinks(const torch::Tensor& sinks, const torch::Tensor& output_gradient,
                                const torch::Tensor& output, const torch::Tensor& lse);

// The kernels of libtorch's that attention on GPUs has used in this process: of "cudnn", "flash",
// "memory-efficient" and "math".
std::vector<std::string> library_attention_in_use();

// Rows [batch, length] of one shape.
struct AttentionRows {
  int32_t batch = 0, length = 0;
};

// The one shape of this process whose attention may take cuDNN's kernels. cuDNN builds a plan for
// each shape, one a pass (forward, backward, and forward in a recomputation), and a plan takes
// about half a second. Rows of all other shapes take FlashAttention, which needs no plan. At first
// there is no such shape.
void plan_attention_for(AttentionRows rows);

}  // namespace sftbench::ops
