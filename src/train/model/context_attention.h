// Attention of queries whose row other ranks have parts of: keys and values travel, queries stay.
//
// Ring (Liu et al. 2023, Ring Attention): while queries meet the chunks that are at hand, the next
// ones are under way, early chunks to the next rank and late ones to the rank before. A chunk is
// handed on until no further rank needs it (causality, windows, ends of sequences): all need the
// early ones, and only ranks with later chunks the late ones. The backward pass hands keys and
// values on once more. Their gradients travel behind them, in float32, and each rank adds its
// share. They go home from the last rank that needs the chunk. A rank holds two blocks, whatever
// the number of ranks.
//
// All-gather: every rank has all keys and values for the time of a layer.
#pragma once

#include <torch/types.h>

#include "model/decoding.h"
#include "model/rotary_embedding.h"
#include "sftbench/model/context_group.h"
#include "sftbench/ops/kernel_choice.h"

namespace sftbench {

// As ops::causal_attention, of this rank's positions: q [B, S, H, D], k and v [B, S, K, D].
// Collective, in both passes.
torch::Tensor context_attention(const ContextPart& part, const torch::Tensor& q,
                                const torch::Tensor& k, const torch::Tensor& v, double scale,
                                int64_t window, const ops::Dropout& dropout,
                                const ops::ScoreTerms& terms);

// Attention of a layer: of whole rows by the kernel that was chosen, of this rank's part, or of
// positions behind others.
inline torch::Tensor attend(const ops::KernelChoice& kernels, const RotaryTables& positions,
                            const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            double scale, int64_t window, const ops::Dropout& dropout,
                            const ops::ScoreTerms& terms) {
  if (positions.state != nullptr)
    return decode_attention(*positions.state, q, k, v, scale, window, terms);
  if (!positions.part)
    return kernels.causal_attention(q, k, v, scale, window, positions.packed, dropout, terms);
  return context_attention(*positions.part, q, k, v, scale, window, dropout, terms);
}

}  // namespace sftbench
