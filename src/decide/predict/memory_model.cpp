#include "predict/memory_model.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "predict/peak_memory.h"
#include "sftbench/base/cpu_instructions.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/variants/optimizer.h"

namespace sftbench {
namespace {

// Of ops/linear_cross_entropy.cpp: on CPUs, and on GPUs by whether the weight is trained, whole
// tiles.
constexpr double kLogitChunkBytes = 32 << 20, kTileLogitChunkBytes = 128 << 20;
constexpr double kGpuLogitChunkBytes = 256 << 20;
constexpr double kGpuTrainedLogitChunkBytes = 2.0 * (1 << 30);
constexpr double kGpuLogitRows = 256;
// That libtorch's allocator gives cuBLAS on Hopper (ATen/cuda/CUDABlas.cpp); a quarter elsewhere.
constexpr double kWorkspaceBytes = 32 << 20;

// Of ops/adafactor.cpp: elements in float32 that a band of a parameter's rows has on a GPU, and how
// often.
constexpr double kFactoredBandElements = 1 << 24, kFactoredBandCopies = 3;

// Of other implementations, beside the logits: a float32 copy of the final norm's input.
constexpr double kHiddenValuesOfLoss = 2;

// Of DeepSpeed's ZeRO (runtime/zero/config.py): parameters that stage 3 leaves gathered
// (stage3_max_live_parameters), those that it updates at a time (sub_group_size), and gradients
// that are reduced at a time (reduce_bucket_size).
constexpr double kLiveElements = 1e9, kUpdatedElements = 1e9, kBucketElements = 5e8;
// While they are updated, beside states: the gradient in float32, and the root that AdamW takes of
// a moment.
constexpr double kMasterUpdateCopies = 2;

// Eager attention (transformers, eager_attention_forward, and ops/plain.cpp) keeps of a score its
// softmax in float32, and a copy in the type that values have. Its backward pass adds gradients of
// both, and of the score.
double kept_score_bytes(double computed) {
  return kFloatBytes + (computed < kFloatBytes ? computed : 0);
}
constexpr double kScoreGradientBytes = 8;

}  // namespace

MemoryModel::MemoryModel(const TrainingJob& job, const ModelWork& work, const StackModel& stack,
                         const UnitSizes& sizes, bool follows_engine)
    : job_(job),
      work_(work),
      stack_(stack),
      sizes_(sizes),
      follows_engine_(follows_engine),
      root_(sizes.of(work.root)),
      layer_(sizes.of(work.layer)),
      context_(context_cost(job, sizes.element().computed)) {}

MemoryCost MemoryModel::between_backward_and_update() const {
  const auto layers = static_cast<double>(work_.layers);
  MemoryCost memory;
  memory.parameters = root_.shard + layers * layer_.shard;
  if (row_of(job_.optimizer.kind).updates_in_backward() || stack_.updates_in_backward) {
    // Each gradient is freed there and then, but the largest of the root: that of the output
    // projection comes with the loss, and a tied embedding's waits for its second part
    // (optim/update_in_backward.h).
    for (const TrainedShape& tensor : work_.root.trained)
      memory.gradients = std::max(memory.gradients, static_cast<double>(sizes_.part_of(tensor)) *
                                                        sizes_.trained_bytes(tensor));
  } else {
    memory.gradients = root_.shard_grads + layers * layer_.shard_grads;
  }
  if (offloads_shards()) {
    memory.offloaded_parameters = memory.parameters + memory.gradients;
    memory.parameters = 0;
    // Of the unit that leaves for the host, and of the one that is reduced meanwhile.
    memory.gradients = 2 * std::max(root_.shard_grads, layer_.shard_grads);
  }
  // Paged ones visit while as many come or go (optim/state_pager.h).
  const double state =
      root_.state + layers * layer_.state + 2 * std::max(root_.visiting, layer_.visiting);
  (offloads_state() ? memory.offloaded_state : memory.optimizer_state) = state;
  if (keeps_masters() && offloads_state() && !offloads_shards()) {
    memory.offloaded_state += memory.gradients;
    memory.gradients = 2 * std::max(root_.shard_grads, layer_.shard_grads);
  }
  return memory;
}

MemoryCost MemoryModel::at_peak(double buffer_bytes) const {
  MemoryCost memory = between_backward_and_update();
  memory.gathered = buffer_bytes;
  if (follows_engine_) {
    put_peak(memory);
    return memory;
  }
  put_peak_of_stack(memory);
  return memory;
}

// Another implementation's, or torch's.
void MemoryModel::put_peak_of_stack(MemoryCost& memory) const {
  const auto layers = static_cast<double>(work_.layers);
  const auto positions = static_cast<double>(work_.positions);
  const bool again = work_.kept_when_recomputed < work_.kept_per_position;
  const double stream = positions * stream_bytes() * work_.kept_when_recomputed;
  const double here = again ? inputs_on_device() : layers;
  const double inputs = stream * here;
  memory.offloaded_activations = stream * (layers - here);
  const double copies = sizes_.layout().sharded ? stack_.sharded_checkpoints - 1 : 0;
  const double computed = layer_while_computed();
  const double waits = layer_that_waits();
  const double layer = again ? copies * inputs + computed : std::max(0.0, computed - waits);
  memory.logits = logit_bytes(positions * static_cast<double>(work_.vocabulary));
  if (keeps_masters()) put_masters(memory);
  memory.update = update_copies() + 2 * offloaded_chunk_bytes();
  // Stage 3 of ZeRO has one buffer for all of them. Shards of gradients come when whole ones go,
  // behind the last micro-batch.
  const bool sharded = sizes_.layout().sharded;
  const bool late = job_.batches.gradient_accumulation_steps == 1 ||
                    (sharded && job_.parallel.gradient_sync == GradientSync::kLast);
  const bool frees = stack_.frees_gradients && late && !(keeps_masters() && sharded);
  if (frees) memory.freed_gradients = memory.gradients;
  // The loss is done before a layer's backward pass: the larger of the two counts. This engine's
  // chunks stay until then.
  const double hidden = kHiddenValuesOfLoss * positions * sizes_.element().computed * work_.hidden;
  const double beside_logits =
      stack_.logit_bytes > 0 ? std::max(hidden, layer - memory.logits) : layer;
  memory.activations =
      (again ? inputs : layers * waits) + context_.backward_buffers + beside_logits;
  memory.fragmentation = (again ? stack_.fragmentation_recomputed : stack_.fragmentation) *
                         (memory.activations + memory.logits);
}

// What ZeRO holds beside shards while it computes.
void MemoryModel::put_masters(MemoryCost& memory) const {
  const double bytes = sizes_.element().computed;
  const double all = root_.gathered + static_cast<double>(work_.layers) * layer_.gathered;
  if (sizes_.layout().sharded)
    memory.gathered = std::max(memory.gathered, std::min(all, kLiveElements * bytes));
  memory.gathered += kBucketElements * bytes;
}

// Of what a rank updates, on the device.
double MemoryModel::update_copies() const {
  const double bytes = root_.trained + static_cast<double>(work_.layers) * layer_.trained;
  const bool at_once = row_of(job_.optimizer.kind).foreach && !stack_.updates_in_backward;
  if (!keeps_masters()) return at_once ? stack_.update_copies * bytes : 0;
  if (offloads_state()) return 0;
  const double most = kUpdatedElements * kFloatBytes;
  return kMasterUpdateCopies * (sizes_.layout().sharded ? std::min(bytes, most) : bytes);
}

// With its gradients, and the 4-bit weight that is expanded.
double MemoryModel::layer_while_computed() const {
  const bool fused = job_.kernels.fused_rms_norm || work_.layer_norm;
  const double scale = fused ? stack_.kept_scale_fused : stack_.kept_scale;
  const double computed = sizes_.element().computed;
  return static_cast<double>(work_.positions) * computed * work_.kept_per_position * scale +
         work_.scores * (kept_score_bytes(computed) + kScoreGradientBytes) +
         computed * work_.largest_weight;
}

double MemoryModel::layer_that_waits() const {
  const bool fused = job_.kernels.fused_rms_norm || work_.layer_norm;
  const double scale = fused ? stack_.kept_scale_fused : stack_.kept_scale;
  const double kept = stack_.kept_waiting > 0
                          ? work_.kept_by_engine * stack_.kept_waiting * scale / stack_.kept_scale
                          : work_.kept_per_position * scale;
  const double computed = sizes_.element().computed;
  return static_cast<double>(work_.positions) * computed * kept +
         work_.scores * kept_score_bytes(computed);
}

// Of a value between layers.
double MemoryModel::stream_bytes() const {
  const bool widened = stack_.widens_beside_quantized && row_of(job_.tuning).quantized_weights &&
                       !sizes_.layout().sharded;
  return widened ? kFloatBytes : sizes_.element().computed;
}

// Of this engine.
void MemoryModel::put_peak(MemoryCost& memory) const {
  const auto layers = static_cast<double>(work_.layers);
  const double value = static_cast<double>(work_.positions) * sizes_.element().computed;
  const bool again = job_.activations.gradient_checkpointing;
  const bool one_micro_batch = job_.batches.gradient_accumulation_steps == 1;
  const bool last_only = job_.parallel.gradient_sync == GradientSync::kLast || one_micro_batch;
  // One rank has each gradient from when it is first computed (parallel/kept_parameters.cpp),
  // shards from when gradients are reduced.
  const bool alone = !is_distributed(job_);
  const bool late = alone ? one_micro_batch : sizes_.layout().sharded && last_only;
  const double here = again ? inputs_on_device() : layers;
  memory.offloaded_activations = value * (layers - here) * work_.hidden;
  // Attention with sinks has tiles in any case.
  const double count = known_model(job_.model).config.attention.sinks ? 0 : work_.scores;
  const double scores = count * kept_score_bytes(sizes_.element().computed);
  const double kept = value * work_.kept_by_engine + scores;
  // The gradients of scores come when those of the MLP are gone, with what it kept.
  const double of_mixer = std::max(context_.backward_buffers, kScoreGradientBytes * count);
  const PeakParts peak = peak_parts(
      {.waiting = here * (again ? value * work_.hidden : kept),
       .layer = again ? value * work_.kept_at_most + scores : 0,
       .backward = std::max(value * work_.backward_values, of_mixer - value * work_.kept_by_mlp),
       .logits = logit_bytes(static_cast<double>(work_.positions * work_.vocabulary)),
       .hidden = value * work_.hidden,
       .gradients = memory.gradients,
       .gradients_of_loss = alone ? root_.shard_grads : 0,
       .gradients_come_late = late});
  memory.workspace = on_gpu() ? kWorkspaceBytes : 0;
  memory.activations = peak.activations;
  memory.logits = peak.logits;
  memory.freed_gradients = peak.freed_gradients;
  memory.update = memory.gathered + 2 * offloaded_chunk_bytes() + band_bytes();  // the buffers stay
}

// Of checkpointed layers. The first stays; others that wait on the host are there while they
// leave or come back, of which two are at once.
double MemoryModel::inputs_on_device() const {
  constexpr double kAtOnce = 3;
  const auto layers = static_cast<double>(work_.layers);
  const bool on_host = job_.activations.offload && on_gpu();
  return on_host ? std::min(layers, kAtOnce) : layers;
}

bool MemoryModel::offloads_shards() const {
  return sizes_.layout().sharded && job_.parallel.offload && on_gpu();
}

bool MemoryModel::offloads_state() const {
  return (job_.optimizer.offload_state && on_gpu()) || offloads_shards();
}

// What an update of sums over rows and columns holds of the largest tensor.
double MemoryModel::band_bytes() const {
  const StateRule& state = row_of(job_.optimizer.kind).state;
  if (!on_gpu() || !state.factored || state.projected) return 0;
  double elements = 0;
  for (const UnitTensors* unit : {&work_.root, &work_.layer}) {
    for (const TrainedShape& tensor : unit->trained)
      elements = std::max(elements, static_cast<double>(sizes_.part_of(tensor)));
  }
  return kFactoredBandCopies * kFloatBytes * std::min(elements, kFactoredBandElements);
}

// One buffer while the device updates, at most: states of a chunk, or of a tensor that has more
// elements, with parameters and gradients where these visit, too.
double MemoryModel::offloaded_chunk_bytes() const {
  if (!offloads_state() || keeps_masters()) return 0;  // ZeRO updates on the host
  double elements = 0, bytes = 0, all_elements = 0, all_bytes = 0;
  for (const auto& [unit, count] :
       {std::pair{&work_.root, int64_t{1}}, std::pair{&work_.layer, work_.layers}}) {
    for (const TrainedShape& tensor : unit->trained) {
      const auto part = static_cast<double>(sizes_.part_of(tensor));
      const double beside = offloads_shards() ? 2 * sizes_.trained_bytes(tensor) * part : 0;
      const double visits = sizes_.state_of(tensor) + beside;
      elements = std::max(elements, part);
      bytes = std::max(bytes, visits);
      all_elements += static_cast<double>(count) * part;
      all_bytes += static_cast<double>(count) * visits;
    }
  }
  const double chunk = std::min(all_elements, static_cast<double>(kOffloadedChunkElements));
  return elements >= chunk ? bytes : all_bytes / all_elements * chunk;
}

double MemoryModel::logit_chunk_bytes() const {
  if (!on_gpu()) {
    const std::string_view dtype =
        product_dtype_name(job_.precision.torch_dtype, job_.precision.autocast);
    return dtype == "bfloat16" && cpu_instructions() == CpuInstructions::kAmx ? kTileLogitChunkBytes
                                                                              : kLogitChunkBytes;
  }
  const double bytes = work_.trains_head ? kGpuTrainedLogitChunkBytes : kGpuLogitChunkBytes;
  const double tile_bytes =
      kGpuLogitRows * static_cast<double>(work_.vocabulary) * chunked_logit_bytes();
  return std::max(1.0, std::floor(bytes / tile_bytes)) * tile_bytes;
}

// Of one logit in a chunk. A cap has a slope in float32 beside it.
double MemoryModel::chunked_logit_bytes() const {
  const bool capped = known_model(job_.model).config.multipliers.logit_cap > 0;
  return sizes_.element().computed + (capped ? kFloatBytes : 0);
}

// A tile, and gradients that are summed in float32 before they are cast: of what the head reads,
// beside its copy without the positions that bear no loss, and of a weight that trains.
double MemoryModel::logit_tile_bytes() const {
  const double computed = sizes_.element().computed, stored = sizes_.element().stored;
  const auto with_cast = [](double bytes) {
    return kFloatBytes + (bytes < kFloatBytes ? bytes : 0);
  };
  const auto positions = static_cast<double>(work_.positions);
  const double tile =
      std::min(positions, stack_.logit_tile_rows) * stack_.logit_tile_columns * computed;
  const double weight = static_cast<double>(work_.vocabulary) * work_.hidden;
  return tile + positions * work_.hidden * (computed + with_cast(computed)) +
         (work_.trains_head ? weight * with_cast(stored) : 0);
}

double MemoryModel::logit_bytes(double logits) const {
  if (stack_.logit_tile_rows > 0) return logit_tile_bytes();
  const bool fused = job_.kernels.fused_loss;
  if (stack_.logit_bytes > 0) {
    const double less = fused ? stack_.narrow_logits_fused : stack_.narrow_logits;
    const double each = fused ? stack_.logit_bytes_fused : stack_.logit_bytes;
    return logits * std::max(0.0, each - (work_.narrow_loss ? less : 0));
  }
  // Whole: in the compute dtype, in float32 for the loss, and the gradient of these.
  const double whole = logits * (sizes_.element().computed + 2 * kFloatBytes);
  return fused ? std::min(logit_chunk_bytes(), logits * chunked_logit_bytes()) : whole;
}

}  // namespace sftbench
