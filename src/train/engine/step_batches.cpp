#include "engine/step_batches.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/data/invocation.h"
#include "sftbench/data/packing.h"
#include "sftbench/ops/linear_cross_entropy.h"

namespace sftbench {
namespace {

torch::Tensor to_device(const std::vector<int64_t>& values, const MicroBatch& batch,
                        const torch::Device& device) {
  return torch::from_blob(const_cast<int64_t*>(values.data()), {batch.batch, batch.length},
                          torch::kInt64)
      .to(device, torch::kInt64, /*non_blocking=*/false, /*copy=*/true);
}

torch::Tensor to_device(const std::vector<uint8_t>& flags, const MicroBatch& batch,
                        const torch::Device& device) {
  return torch::from_blob(const_cast<uint8_t*>(flags.data()), {batch.batch, batch.length},
                          torch::kUInt8)
      .to(device, torch::kBool, /*non_blocking=*/false, /*copy=*/true);
}

// Entries stand at the beginning of their rows.
torch::Tensor mask_of(const MicroBatch& batch, const torch::Device& device) {
  const std::vector<int64_t> of_row = {batch.length - batch.padding_tokens};
  const torch::Tensor lengths =
      torch::tensor(batch.one_row ? of_row : batch.lengths, torch::kInt64).unsqueeze(1);
  return (torch::arange(batch.length).unsqueeze(0) < lengths).to(device, torch::kFloat32);
}

// Counts of this rank become counts of all of them.
void sum_over_ranks(StepBatches& batches, Communicator& communicator, const torch::Device& device) {
  TokenCounts& tokens = batches.tokens;
  torch::Tensor sums =
      torch::tensor({static_cast<double>(batches.samples), static_cast<double>(tokens.padded),
                     static_cast<double>(tokens.dataset), static_cast<double>(tokens.loss_bearing),
                     static_cast<double>(tokens.padding), batches.attention_flops,
                     static_cast<double>(batches.undivided)},
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
  batches.undivided = static_cast<int64_t>(sum[6]);
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

namespace {

DeviceBatch whole_rows(const MicroBatch& batch, const BatchReader& reader) {
  DeviceBatch on_device;
  on_device.input_ids = to_device(batch.input_ids, batch, reader.device);
  on_device.labels = to_device(batch.labels, batch, reader.device);
  if (batch.one_row) on_device.packed = ops::packed_sequences(batch.lengths, reader.device);
  if (reader.needs_mask && batch.padding_tokens > 0) on_device.mask = mask_of(batch, reader.device);
  if (!reader.invocation.empty()) {
    on_device.silent = to_device(silent_positions(batch, reader.invocation), batch, reader.device);
  }
  return on_device;
}

// Of the whole row `values` [batch, length], what the ranks of a context have: this rank's.
template <typename Value>
std::vector<Value> own_values(const std::vector<Value>& values, const MicroBatch& rows,
                              const ContextLayout& layout, int64_t rank) {
  std::vector<Value> own;
  own.reserve(static_cast<size_t>(rows.batch * layout.own_length()));
  for (int64_t row = 0; row < rows.batch; ++row) {
    for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
      const auto begin = values.begin() + row * rows.length + layout.chunk_begin(rank, half);
      own.insert(own.end(), begin, begin + layout.chunk_length());
    }
  }
  return own;
}

// Labels of the next position.
std::vector<int64_t> shifted_labels(const MicroBatch& rows) {
  std::vector<int64_t> shifted(rows.labels.size(), ops::kIgnoredLabel);
  for (int64_t row = 0; row < rows.batch; ++row) {
    const auto begin = rows.labels.begin() + row * rows.length;
    std::copy(begin + 1, begin + rows.length, shifted.begin() + row * rows.length);
  }
  return shifted;
}

ReadBatch read_part(MicroBatch whole, const BatchReader& reader) {
  RankContext& context = *reader.context;
  const int64_t rank = context.rank(), ranks = context.size(), entries = std::ssize(whole.lengths);
  const MicroBatch rows = divisible_rows(std::move(whole), ranks, reader.pad_id);
  ReadBatch read;
  DeviceBatch& on_device = read.on_device;
  on_device.part = context.part_of(rows);
  const ContextLayout& layout = on_device.part->layout;
  MicroBatch own;
  own.batch = rows.batch;
  own.length = layout.own_length();
  own.input_ids = own_values(rows.input_ids, rows, layout, rank);
  own.labels = own_values(shifted_labels(rows), rows, layout, rank);
  on_device.input_ids = to_device(own.input_ids, own, reader.device);
  on_device.labels = to_device(own.labels, own, reader.device);
  if (rows.one_row) on_device.packed = ops::packed_sequences(rows.lengths, reader.device);
  if (reader.needs_mask && rows.padding_tokens > 0) {
    on_device.mask = mask_of(rows, reader.device).index_select(1, on_device.part->positions);
  }
  if (!reader.invocation.empty()) {
    const std::vector<uint8_t> silent = silent_positions(rows, reader.invocation);
    on_device.silent = to_device(own_values(silent, rows, layout, rank), own, reader.device);
  }
  const auto bears_loss = [](int64_t label) { return label != ops::kIgnoredLabel; };
  read.samples = rank == 0 ? entries : 0;
  read.tokens = {own.batch * own.length, share_of(rows.dataset_tokens, rank, ranks),
                 std::count_if(own.labels.begin(), own.labels.end(), bears_loss),
                 share_of(rows.padding_tokens, rank, ranks)};
  return read;
}

}  // namespace

ReadBatch read_batch(MicroBatch batch, const BatchReader& reader) {
  if (reader.context != nullptr) return read_part(std::move(batch), reader);
  const int64_t first = reader.virtual_tokens > 0 ? batch.first_loss_tokens : 0;
  return {
      whole_rows(batch, reader),
      std::ssize(batch.lengths),
      {batch.padded_tokens, batch.dataset_tokens, batch.loss_tokens + first, batch.padding_tokens},
      first};
}

std::optional<BatchShape> prevailing_shape(TrainingData& data, int64_t rank) {
  constexpr int64_t kEnoughToTell = 256;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  int64_t seen = 0;
  for (int64_t step = 0; step < data.plan.total_steps() && seen < kEnoughToTell; ++step) {
    for (const auto& units : data.plan.step(step, rank).micro_batches) {
      const BatchShape shape = shape_of(*data.dataset, unpacked(units, data.packs), data.padding);
      ++counts[{shape.batch, shape.length}];
      ++seen;
    }
  }
  for (const auto& [shape, count] : counts)
    if (2 * count > seen) return BatchShape{shape.first, shape.second};
  return std::nullopt;
}

BatchSource::BatchSource(TrainingData data, AttentionShape attention, BatchReader reader,
                         Communicator& world)
    : data_(std::move(data)),
      attention_(std::move(attention)),
      reader_(std::move(reader)),
      world_(world),
      images_(data_.vision ? std::make_unique<ImagesAhead>(data_.vision) : nullptr) {
  const BatchShape shape = prevailing_shape(data_, reader_.rank).value_or(BatchShape{});
  ops::plan_attention_for({static_cast<int32_t>(shape.batch),
                           static_cast<int32_t>(shape.length + attention_.virtual_tokens)});
}

DeviceBatch BatchSource::add(const std::vector<int64_t>& entries, StepBatches& batches) const {
  const MicroBatch batch = make_micro_batch(*data_.dataset, entries, data_.padding, data_.pad_id);
  const double sharers =
      reader_.context == nullptr ? 1 : static_cast<double>(reader_.context->size());
  batches.attention_flops += causal_attention_flops(batch, attention_) / sharers;
  ReadBatch read = read_batch(batch, reader_);
  batches.samples += read.samples;
  batches.tokens += read.tokens;
  batches.undivided += read.undivided;
  // Virtual tokens are computed like any other position.
  batches.tokens.padded += batch.batch * attention_.virtual_tokens;
  return std::move(read.on_device);
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
    images_->begin(data_.plan.step(step + 1, reader_.rank).micro_batches);
  }
  return images;
}

void BatchSource::add_images(BatchImages images, DeviceBatch& batch, StepBatches& batches) const {
  if (!images.tiles.defined()) return;
  batches.attention_flops += attention_.tile_flops * static_cast<double>(images.tiles.size(0));
  batch.images = {images.tiles.to(reader_.device), std::move(images.sizes)};
}

TokenRows BatchSource::rows(const DeviceBatch& batch) const {
  ImageRows images;
  if (batch.images.tiles.defined()) {
    const auto colors = [&](const float* values) {
      return torch::tensor({values[0], values[1], values[2]}).view({1, 3, 1, 1}).to(reader_.device);
    };
    images.pixels = batch.images.tiles.to(torch::kFloat32)
                        .div_(255.0)
                        .sub_(colors(data_.scaling.mean))
                        .div_(colors(data_.scaling.deviation));
    images.sizes = batch.images.sizes;
    images.token = data_.vision->ignored_id();
  }
  TokenRows rows(batch.input_ids, batch.packed, batch.mask, std::move(images));
  rows.part = batch.part;
  rows.silent = batch.silent;
  return rows;
}

StepBatches BatchSource::step(int64_t step) {
  const StepEntries entries = data_.plan.step(step, reader_.rank);
  StepBatches batches;
  batches.epoch = entries.epoch_fraction;
  std::vector<BatchImages> images = images_of(step, entries);
  for (size_t i = 0; i < entries.micro_batches.size(); ++i) {
    batches.micro_batches.push_back(add(unpacked(entries.micro_batches[i], data_.packs), batches));
    if (images_) add_images(std::move(images[i]), batches.micro_batches.back(), batches);
  }
  batches.own_samples = batches.samples;
  batches.own_tokens = batches.tokens;
  sum_over_ranks(batches, world_, reader_.device);
  return batches;
}

}  // namespace sftbench
