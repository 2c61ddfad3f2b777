// A model as the cost model sees it: units of tensors, and what a micro-batch computes and keeps in
// each. From config.json's shapes; H hidden, I intermediate, A heads x head size, K key/value heads
// x head size, V vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/predict/cost_model.h"
#include "sftbench/variants/optimizer_state_size.h"

namespace sftbench {

// Its tensors; `frozen` and `trained` lie apart.
struct UnitTensors {
  std::vector<TrainedShape> frozen;
  std::vector<TrainedShape> trained;
  double quantized = 0;  // elements that are frozen in 4 bits
};

// Of the two matrix products of a causal attention's forward pass; its backward pass has five of
// them, since flash attention computes the scores again (Dao 2023, arXiv 2307.08691).
inline constexpr double kAttentionBackward = 2.5;
// Each product of a scan has a gradient for both of its factors.
inline constexpr double kScanBackward = 2;
// Of a weight in 4 bits: with the scale and zero of GPTQ's group of 128, or the magnitude of NF4's
// block of 64.
inline constexpr double kGptqBytes = 0.5 + 2.5 / 128;
inline constexpr double kNf4Bytes = 0.5 + 4.0 / 64;
inline constexpr double kNestedNf4Bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

// Products of a layer that have one shape.
struct LinearWork {
  double in = 0;
  double out = 0;
  double count = 1;
  double share_of_positions = 1;  // that goes through each of them
  bool trained = false;
  double adapter_rank = 0;     // 0: none
  bool has_magnitude = false;  // DoRA
};

// FLOPs of one micro-batch.
struct UnitFlops {
  double forward = 0;
  double recomputed = 0;
  double backward = 0;
};

struct ModelWork {
  int64_t layers = 0;
  int64_t recomputed_layers = 0;  // the first ones
  UnitTensors root;
  UnitTensors layer;
  UnitFlops layer_flops;
  UnitFlops head_flops;  // output projection and loss
  bool trains_head = false;
  double kept_per_position = 0;  // values of a layer that wait for its backward pass
  double kept_when_recomputed = 0;
  // By this engine, which leaves out what only a frozen weight's gradient would need; and of the
  // layer that keeps most.
  double kept_by_engine = 0, kept_at_most = 0;
  double kept_by_mlp = 0;  // of kept_at_most, what is gone when the backward pass reaches the mixer
  double backward_values = 0;  // of gradients inside a layer, at most
  double scores = 0;           // of attention that holds all of them, in a layer
  bool narrow_loss = false;    // of transformers: its model makes no float32 copy of its logits
  double largest_weight = 0;   // elements of a layer's largest 4-bit weight
  int64_t positions = 0;       // of one micro-batch of one rank
  int64_t vocabulary = 0;

  // What seconds are counted from (plan/layer_time.h), of a layer.
  std::vector<LinearWork> linears;
  double attention_flops = 0;
  double scan_flops = 0;
  double last_product = 0;  // its weights, which a recomputation leaves out
  double hidden = 0;        // values of a position: of the residual stream,
  double rotated = 0;       // of queries and keys,
  double activated = 0;     // and of the inner width of all experts that it goes through
  double experts = 0;       // of a mixture
  double head_size = 0;
  bool layer_norm = false;  // and not RMSNorm, for which torch has no kernel of its own
  double quantized_elements = 0;
  double weight_elements = 0;
};

ModelWork model_work(const TrainingJob& job, Recompute recompute);

// Elements of one flat array of these tensors, padded to `shards` equal parts; as
// parallel/flat_layout.h lays them.
int64_t flat_elements(const std::vector<TrainedShape>& tensors, int64_t element_bytes,
                      int64_t shards);

}  // namespace sftbench
