// Rotary position embedding (Su et al. 2021) and its variants for longer contexts, after
// transformers' modeling_rope_utils.py. Angles are computed in float32 and rounded once, as Hugging
// Face does.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "sftbench/families/model_config.h"
#include "sftbench/model/context_group.h"
#include "sftbench/model/decoding_state.h"
#include "sftbench/ops/attention.h"

namespace sftbench {

// Cosines and sines of the positions of a row of S tokens: 0 .. S - 1, or, in a packed row, from 0
// on in each of its sequences.
struct RotaryTables {
  torch::Tensor cos = {};            // [S, rotated values / 2]; undefined: nothing is rotated
  torch::Tensor sin = {};            // as cos
  ops::PackedSequences packed = {};  // of the whole row
  std::shared_ptr<const ContextPart> part = nullptr;  // null: rows are whole
  torch::Tensor local_cos = {}, local_sin = {};       // of layers with positions of their own
  torch::Tensor query_scale = {};  // [S, 1, 1]: factors on rotated queries; undefined: all are 1
  DecodingState* state = nullptr;  // of the positions before; null: there are none
};

// Positions 0, 1, ... from the first token of each sequence on, [S] int64 on the host.
torch::Tensor positions_of(const ops::PackedSequences& packed);

// Those of a rank's part of a row of `row_length` positions, or of all of them, on `device`.
torch::Tensor own_positions(int64_t row_length, const ops::PackedSequences& packed,
                            const std::shared_ptr<const ContextPart>& part, torch::Device device);

class RotaryEmbedding {
 public:
  RotaryEmbedding(const RopeConfig& rope, int64_t max_position_embeddings);

  // Tables in dtype and device of what they rotate, taken from ones that are kept for the longest
  // sequence so far. Dynamic RoPE remembers the longest sequence beyond the model's maximum, until
  // one comes that is shorter than the maximum. LongRoPE has other factors for sequences beyond the
  // length of pre-training. row_length: of the whole row. The tables hold the positions of `part`,
  // or those from `before` on.
  RotaryTables tables(int64_t row_length, const torch::TensorOptions& options,
                      const ops::PackedSequences& packed = {},
                      const std::shared_ptr<const ContextPart>& part = nullptr, int64_t before = 0);

  // All that is kept. Empty before the first call of tables().
  const RotaryTables& kept() const { return kept_; }

 private:
  void follow_length(int64_t sequence_length);
  void rebuild(int64_t length, const torch::TensorOptions& options);

  RopeConfig rope_;
  int64_t max_position_embeddings_;
  torch::Tensor frequencies_;  // [rotated values / 2] float32
  double attention_factor_;
  int64_t dynamic_length_;
  RotaryTables kept_;
};

// Radians per position of each pair, float32, for sequences of `sequence_length` tokens (only
// kDynamic and kLong depend on it).
torch::Tensor rotary_frequencies(const RopeConfig& rope, int64_t max_position_embeddings,
                                 int64_t sequence_length);

}  // namespace sftbench
