// The batches of one optimization step, as tensors on the device, with what there is to count in
// them.
#pragma once

#include <torch/types.h>
#include <algorithm>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/images_ahead.h"
#include "engine/rank_context.h"
#include "sftbench/data/image_tiles.h"
#include "sftbench/data/micro_batch.h"
#include "sftbench/data/packing.h"
#include "sftbench/data/step_plan.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/data/vision_dataset.h"
#include "sftbench/measure/events.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/attention.h"
#include "sftbench/parallel/communicator.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// Of a micro-batch: tiles as bytes, which become numbers when the batch is read.
struct DeviceImages {
  torch::Tensor tiles;  // [tiles, 3, side, side] uint8; undefined: there are none
  std::vector<PixelSize> sizes;
};

struct DeviceBatch {
  torch::Tensor input_ids, labels;  // [B, S] int64; labels of a part are shifted
  ops::PackedSequences packed;      // of the one row, without padding
  torch::Tensor mask;               // [B, S] 1 for tokens, 0 for padding; where a model needs it
  torch::Tensor silent;             // [B, S] bool, where adapters are; undefined: nowhere
  DeviceImages images;
  std::shared_ptr<const ContextPart> part;  // null: rows are whole
};

// Who reads batches: a rank, or the ranks of `context`, which divide each row.
struct BatchReader {
  int64_t rank = 0;
  RankContext* context = nullptr;
  bool needs_mask = false;  // as CausalLm says
  torch::Device device = torch::kCPU;
  int64_t pad_id = 0;
  int64_t virtual_tokens = 0;       // prompt tuning's, in front of every row
  std::vector<int32_t> invocation;  // of activated LoRA; empty: adapters act everywhere
};

// The batch, or, where rows are divided, this rank's part of it, with what there is to count in it.
struct ReadBatch {
  DeviceBatch on_device;
  int64_t samples = 0;  // of a group, one rank counts them
  TokenCounts tokens;
  int64_t undivided = 0;  // of tokens.loss_bearing: those that the loss is not divided by
};
ReadBatch read_batch(MicroBatch batch, const BatchReader& reader);

struct StepBatches {
  std::vector<DeviceBatch> micro_batches;  // this rank's
  double epoch = 0;                        // epochs done after this step
  int64_t samples = 0;                     // over all ranks, as the two below
  TokenCounts tokens;
  int64_t undivided = 0;  // as ReadBatch's
  double attention_flops = 0;
  int64_t own_samples = 0;  // this rank's
  TokenCounts own_tokens;
};

// What the step's loss is divided by: the labels behind the first of each row, as Trainer counts
// them, also where prompt tuning predicts the first. A step without positions that bear loss has
// the loss and the gradients 0: Trainer goes on, too.
inline int64_t loss_positions(const StepBatches& batches) {
  return std::max<int64_t>(1, batches.tokens.loss_bearing - batches.undivided);
}

// What a run reads: encoded entries, and which of them stand in which batch.
struct TrainingData {
  std::shared_ptr<const EncodedEntries> dataset;  // every entry of the plan is encoded
  StepPlan plan;                                  // of entries; of packs, where there are any
  Packs packs;
  Padding padding = Padding::kLongest;
  int64_t pad_id = 0;
  // The same as `dataset`, where that has images; null for texts.
  std::shared_ptr<const VisionDataset> vision;
  ImageScaling scaling;
};

// The shape that more than half of the rank's micro-batches have, of the first 256; none where no
// shape does.
std::optional<BatchShape> prevailing_shape(TrainingData& data, int64_t rank);

// Of the model that will read the batches.
struct AttentionShape {
  // Layers whose queries see as many keys (0: all before them), and the sum of their widths.
  struct Layers {
    int64_t window = 0;
    int64_t query_width = 0;
  };
  std::vector<Layers> layers;
  int64_t scanned_values = 0;  // of the states of all Mamba-2 layers
  int64_t virtual_tokens = 0;  // prompt tuning's, in front of every row
  // Forward FLOPs of the vision tower and the projector for one tile, times the share of a full
  // backward pass.
  double tile_flops = 0;
};

// FLOPs across positions in one forward pass over one sequence, all layers: of causal attention's
// two matrix products, and 7 for each value of a Mamba-2 state and position (Megatron-LM,
// mamba_layer_flops).
double causal_attention_flops(int64_t length, const AttentionShape& shape);

class BatchSource {
 public:
  // `world`: what steps are summed up over. Attention of the prevailing shape may take a kernel
  // that is planned.
  BatchSource(TrainingData data, AttentionShape attention, BatchReader reader, Communicator& world);

  const EncodedEntries& entries() const { return *data_.dataset; }
  InvocationCount invocations() const { return data_.dataset->invocations(); }

  // step is 0-based. InputError that names the entry of an image that does not decode.
  StepBatches step(int64_t step);

  // What the model reads of a batch.
  TokenRows rows(const DeviceBatch& batch) const;

 private:
  DeviceBatch add(const std::vector<int64_t>& entries, StepBatches& batches) const;
  std::vector<BatchImages> images_of(int64_t step, const StepEntries& entries);
  void add_images(BatchImages images, DeviceBatch& batch, StepBatches& batches) const;

  TrainingData data_;
  AttentionShape attention_;
  BatchReader reader_;
  Communicator& world_;
  std::unique_ptr<ImagesAhead> images_;  // null for texts
};

}  // namespace sftbench
