// A model as the cost model sees it: units of tensors, and what a micro-batch computes and keeps in
// each. From config.json's shapes; H hidden, I intermediate, A heads x head size, K key/value heads
// x head size, V vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/plan/cost_model.h"
#include "sftbench/variants/optimizer_state_size.h"

namespace sftbench {

// Its tensors; `frozen` and `trained` lie apart.
struct UnitTensors {
  std::vector<TrainedShape> frozen;
  std::vector<TrainedShape> trained;
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
  UnitFlops head_flops;          // output projection and loss
  double kept_per_position = 0;  // values of a layer that wait for its backward pass
  double kept_when_recomputed = 0;
  int64_t positions = 0;  // of one micro-batch of one rank
  int64_t vocabulary = 0;
};

ModelWork model_work(const TrainingJob& job, Recompute recompute);

// Elements of one flat array of these tensors, padded to `shards` equal parts; as
// parallel/flat_layout.h lays them.
int64_t flat_elements(const std::vector<TrainedShape>& tensors, int64_t element_bytes,
                      int64_t shards);

}  // namespace sftbench
