#include "engine/step_batches.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/data/packing.h"

namespace sftbench {
namespace {

torch::Tensor to_device(const std::vector<int64_t>& values, const MicroBatch& batch,
                        const torch::Device& device) {
  return torch::from_blob(const_cast<int64_t*>(values.data()), {batch.batch, batch.length},
                          torch::kInt64)
      .to(device, torch::kInt64, /*non_blocking=*/false, /*copy=*/true);
}

// Entries stand at the beginning of their rows.
torch::Tensor mask_of(const MicroBatch& batch, const torch::Device& device) {
  const torch::Tensor lengths = torch::tensor(batch.lengths, torch::kInt64).unsqueeze(1);
  return (torch::arange(batch.length).unsqueeze(0) < lengths).to(device, torch::kFloat32);
}

// Counts of this rank become counts of all of them.
void sum_over_ranks(StepBatches& batches, Communicator& communicator, const torch::Device& device) {
  TokenCounts& tokens = batches.tokens;
  torch::Tensor sums =
      torch::tensor({static_cast<double>(batches.samples), static_cast<double>(tokens.padded),
                     static_cast<double>(tokens.dataset), static_cast<double>(tokens.loss_bearing),
                     static_cast<double>(tokens.padding), batches.attention_flops},
                    torch::kFloat64)
          .to(device);
  communicator.all_reduce_now(sums);
  sums = sums.cpu();
  const double* sum = sums.data_ptr<double>();
  batches.samples = static_cast<int64_t>(sum[0]);
  tokens.padded = static_cast<int64_t>(sum[1]);
  tokens.dataset = static_cast<int64_t>(sum[2]);
  tokens.loss_bearing = static_cast<int64_t>(sum[3]);
  tokens.padding = static_cast<int64_t>(sum[4]);
  batches.attention_flops = sum[5];
}

// None attends to another: each sequence of a row costs what it would alone.
double causal_attention_flops(const MicroBatch& batch, const AttentionShape& shape) {
  if (!batch.one_row) {
    return static_cast<double>(batch.batch) *
           causal_attention_flops(shape.virtual_tokens + batch.length, shape);
  }
  double flops = 0;
  for (const int64_t length : batch.lengths) flops += causal_attention_flops(length, shape);
  return flops;
}

}  // namespace

double causal_attention_flops(int64_t length, const AttentionShape& shape) {
  constexpr double kFlopsPerPairAndElement =
      4;  // two products, each a multiplication and an addition
  double flops = 0;
  for (const AttentionShape::Layers& layers : shape.layers) {
    const int64_t reach = layers.window > 0 ? std::min(layers.window, length) : length;
    const double pairs = static_cast<double>(reach) * static_cast<double>(reach + 1) / 2 +
                         static_cast<double>(length - reach) * static_cast<double>(reach);
    flops += kFlopsPerPairAndElement * pairs * static_cast<double>(layers.query_width);
  }
  constexpr double kFlopsPerStateValue = 7;
  return flops + kFlopsPerStateValue * static_cast<double>(length) *
                     static_cast<double>(shape.scanned_values);
}

DeviceBatch to_device(const MicroBatch& batch, bool needs_mask, const torch::Device& device) {
  DeviceBatch on_device{to_device(batch.input_ids, batch, device),
                        to_device(batch.labels, batch, device),
                        {},
                        {},
                        {}};
  if (batch.one_row) on_device.packed = ops::packed_sequences(batch.lengths, device);
  if (needs_mask && batch.padding_tokens > 0) on_device.mask = mask_of(batch, device);
  return on_device;
}

BatchSource::BatchSource(TrainingData data, AttentionShape attention, bool needs_mask,
                         torch::Device device, Communicator& communicator)
    : data_(std::move(data)),
      attention_(std::move(attention)),
      needs_mask_(needs_mask),
      device_(device),
      communicator_(communicator),
      images_(data_.vision ? std::make_unique<ImagesAhead>(data_.vision) : nullptr) {}

DeviceBatch BatchSource::add(const std::vector<int64_t>& entries, StepBatches& batches) const {
  const MicroBatch batch = make_micro_batch(*data_.dataset, entries, data_.padding, data_.pad_id);
  batches.samples += static_cast<int64_t>(entries.size());
  // Virtual tokens are computed like any other position.
  batches.tokens += {batch.padded_tokens + batch.batch * attention_.virtual_tokens,
                     batch.dataset_tokens, batch.loss_tokens, batch.padding_tokens};
  batches.attention_flops += causal_attention_flops(batch, attention_);
  return to_device(batch, needs_mask_, device_);
}

// Steps are asked for in order: the next one's images are decoded from now on.
std::vector<BatchImages> BatchSource::images_of(int64_t step, const StepEntries& entries) {
  if (!images_) return {};
  if (!images_->has_begun()) images_->begin(entries.micro_batches);
  std::vector<BatchImages> images;
  try {
    images = images_->take();
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kData, error.what());
  }
  if (step + 1 < data_.plan.total_steps()) {
    images_->begin(data_.plan.step(step + 1, communicator_.rank()).micro_batches);
  }
  return images;
}

void BatchSource::add_images(BatchImages images, DeviceBatch& batch, StepBatches& batches) const {
  if (!images.tiles.defined()) return;
  batches.attention_flops += attention_.tile_flops * static_cast<double>(images.tiles.size(0));
  batch.images = {images.tiles.to(device_), std::move(images.sizes)};
}

TokenRows BatchSource::rows(const DeviceBatch& batch) const {
  ImageRows images;
  if (batch.images.tiles.defined()) {
    const auto colors = [&](const float* values) {
      return torch::tensor({values[0], values[1], values[2]}).view({1, 3, 1, 1}).to(device_);
    };
    images.pixels = batch.images.tiles.to(torch::kFloat32)
                        .div_(255.0)
                        .sub_(colors(data_.scaling.mean))
                        .div_(colors(data_.scaling.deviation));
    images.sizes = batch.images.sizes;
    images.token = data_.vision->ignored_id();
  }
  return {batch.input_ids, batch.packed, batch.mask, std::move(images)};
}

StepBatches BatchSource::step(int64_t step) {
  const StepEntries entries = data_.plan.step(step, communicator_.rank());
  StepBatches batches;
  batches.epoch = entries.epoch_fraction;
  std::vector<BatchImages> images = images_of(step, entries);
  for (size_t i = 0; i < entries.micro_batches.size(); ++i) {
    batches.micro_batches.push_back(add(unpacked(entries.micro_batches[i], data_.packs), batches));
    if (images_) add_images(std::move(images[i]), batches.micro_batches.back(), batches);
  }
  batches.own_samples = batches.samples;
  batches.own_tokens = batches.tokens;
  sum_over_ranks(batches, communicator_, device_);
  return batches;
}

}  // namespace sftbench
