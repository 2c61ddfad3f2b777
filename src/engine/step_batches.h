// The batches of one optimization step, as tensors on the device, with what there is to count in
// them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sftbench/data/micro_batch.h"
#include "sftbench/data/step_plan.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/measure/events.h"
#include "sftbench/ops/attention.h"
#include "sftbench/parallel/communicator.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct DeviceBatch {
  torch::Tensor input_ids, labels;  // [B, S] int64
  ops::PackedSequences packed;      // of the one row, without padding
  torch::Tensor mask;               // [B, S] 1 for tokens, 0 for padding; where a model needs it
};

struct StepBatches {
  std::vector<DeviceBatch> micro_batches;  // this rank's
  double epoch = 0;                        // epochs done after this step
  int64_t samples = 0;                     // over all ranks, as the two below
  TokenCounts tokens;
  double attention_flops = 0;
  int64_t own_samples = 0;  // this rank's
  TokenCounts own_tokens;
};

// What a run reads: encoded entries, and which of them stand in which batch.
struct TrainingData {
  TextDataset dataset;  // every entry of the plan is encoded
  StepPlan plan;        // of entries; of packs, where there are any
  std::vector<std::vector<int64_t>> packs;
  Padding padding = Padding::kLongest;
  int64_t pad_id = 0;
};

// Of the model that will read the batches.
struct AttentionShape {
  // Layers whose queries see as many keys (0: all before them), and the sum of their widths.
  struct Layers {
    int64_t window = 0;
    int64_t query_width = 0;
  };
  std::vector<Layers> layers;
  int64_t virtual_tokens = 0;  // prompt tuning's, in front of every row
};

// FLOPs of causal attention's two matrix products in one forward pass over one sequence, all
// layers.
double causal_attention_flops(int64_t length, const AttentionShape& shape);

class BatchSource {
 public:
  // needs_mask: as CausalLm says.
  BatchSource(TrainingData data, AttentionShape attention, bool needs_mask, torch::Device device,
              Communicator& communicator);

  int64_t entries_without_response() const { return data_.dataset.entries_without_response(); }

  // step is 0-based.
  StepBatches step(int64_t step);

 private:
  DeviceBatch add(const std::vector<int64_t>& entries, StepBatches& batches) const;

  TrainingData data_;
  AttentionShape attention_;
  bool needs_mask_;
  torch::Device device_;
  Communicator& communicator_;
};

}  // namespace sftbench
