#include "predict/unit_bytes.h"

#include <algorithm>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/variants/optimizer.h"

namespace sftbench {
namespace {

ElementBytes element_bytes(const TrainingJob& job, const StackModel& stack, bool sharded) {
  const bool autocasts = job.precision.autocast != Autocast::kNo;
  ElementBytes bytes;
  bytes.stored = static_cast<double>(row_of(job.precision.torch_dtype).bytes);
  bytes.computed = autocasts ? 2 : bytes.stored;
  const bool upcasts = stack.upcasts_shards && sharded && bytes.computed < kFloatBytes && autocasts;
  bytes.trained = upcasts ? kFloatBytes : bytes.stored;
  bytes.adapter = stack.adapters_in_float32 ? kFloatBytes : bytes.trained;
  bytes.gathered = sharded ? bytes.computed : bytes.stored;
  if (stack.keeps_master_weights && bytes.computed < kFloatBytes) {
    bytes.stored = bytes.gathered = bytes.computed;
    bytes.trained = bytes.adapter = bytes.master = kFloatBytes;
  }
  const bool widens =
      stack.widens_beside_quantized && row_of(job.tuning).quantized_weights && !sharded;
  bytes.frozen = widens ? kFloatBytes : bytes.stored;
  const std::string& reduce = job.parallel.reduce_dtype;
  bytes.reduced = reduce.empty() ? bytes.gathered : (reduce == "float32" ? 4 : 2);
  return bytes;
}

double quantized_bytes(const TrainingJob& job, const StackModel& stack) {
  if (stack.quantized_bytes > 0) return stack.quantized_bytes;
  if (!row_of(job.tuning).quantizes) return kGptqBytes;
  const std::optional<Nf4Config>& nf4 = known_model(job.model).config.nf4;
  return nf4 && !nf4->double_quantized ? kNf4Bytes : kNestedNf4Bytes;
}

}  // namespace

RankLayout layout_of(const TrainingJob& job, const StackModel& stack) {
  const int64_t ranks = job.device.ranks;
  const int64_t nodes = job.device.nodes;
  const StrategyRow& strategy = row_of(job.parallel.strategy);
  RankLayout layout;
  const bool whole_weights = stack.keeps_master_weights && !strategy.reshard_after_forward;
  layout.sharded = strategy.shards() && !whole_weights;
  layout.divides_gradients = strategy.shards();
  layout.reshard = strategy.reshard_after_forward;
  layout.updates_parts = strategy.updates_parts();
  // One rank has nobody to share with, unless it keeps its shard on the host.
  if (ranks == 1) return job.parallel.offload && strategy.shards() ? layout : RankLayout();
  switch (strategy.mesh) {
    case MeshKind::kReplicated:
      layout.replicas = {"world", ranks, nodes};
      break;
    case MeshKind::kSharded:
      layout.shards = {"world", ranks, nodes};
      break;
    case MeshKind::kHybrid:
      if (nodes < 2 || ranks % nodes != 0 || ranks == nodes) {
        throw RunError(ReasonCode::kUnsupported,
                       std::string(strategy.name) +
                           " shards inside a node and replicates over nodes: " +
                           counted(ranks, "rank") + " on " + counted(nodes, "node") +
                           " are not several ranks on each of several nodes");
      }
      layout.shards = {"shards", ranks / nodes, 1};
      layout.replicas = {"replicas", nodes, nodes};
  }
  return layout;
}

UnitSizes::UnitSizes(const TrainingJob& job, const StackModel& stack)
    : job_(job),
      layout_(layout_of(job, stack)),
      element_(element_bytes(job, stack, layout_.sharded)),
      quantized_bytes_(quantized_bytes(job, stack)),
      flat_gradients_(stack.flat_gradients) {}

UnitBytes UnitSizes::of(const UnitTensors& unit) const {
  const int64_t shards = layout_.shards.ranks;
  const auto element = static_cast<int64_t>(std::min(element_.stored, element_.gathered));
  const auto padded = [&](const std::vector<TrainedShape>& tensors) {
    if (tensors.empty()) return 0.0;
    if (layout_.sharded) return static_cast<double>(flat_elements(tensors, element, shards));
    double elements = 0;
    for (const TrainedShape& tensor : tensors) elements += static_cast<double>(tensor.elements());
    return elements;
  };
  const double frozen = padded(unit.frozen);
  const double trained = padded(unit.trained), each = mean_trained_bytes(unit.trained);
  const auto parts = static_cast<double>(layout_.sharded ? shards : 1);
  UnitBytes bytes;
  const double quantized = unit.quantized * quantized_bytes_;
  const bool masters = element_.master > 0;
  const double own = masters ? element_.stored : each;  // of a trained parameter, beside its master
  const double gradient_parts = layout_.divides_gradients ? static_cast<double>(shards) : 1.0;
  bytes.shard = (frozen * element_.frozen + trained * own + quantized) / parts;
  bytes.trained = trained / static_cast<double>(shards) * each;
  // Elements of the gradient beside those that train.
  const double flat = flat_gradients_ && layout_.sharded && trained > 0 ? frozen : 0;
  bytes.shard_grads = (trained * own + flat * element_.frozen) / gradient_parts;
  bytes.updated = trained * own;
  bytes.gathered = (frozen + trained) * element_.gathered + quantized;
  bytes.gradients = (trained + flat) * element_.gathered;
  bytes.reduced = (trained + flat) * element_.reduced;
  bytes.replicated = bytes.reduced / parts;
  bytes.state = trained / static_cast<double>(shards) * element_.master;
  for (const TrainedShape& tensor : unit.trained) {
    bytes.state += state_of(tensor);
    bytes.visiting = std::max(bytes.visiting, visiting_of(tensor));
  }
  return bytes;
}

double UnitSizes::trained_bytes(const TrainedShape& tensor) const {
  return tensor.name.find(".lora_") == std::string::npos ? element_.trained : element_.adapter;
}

double UnitSizes::mean_trained_bytes(const std::vector<TrainedShape>& tensors) const {
  double elements = 0, bytes = 0;
  for (const TrainedShape& tensor : tensors) {
    elements += static_cast<double>(tensor.elements());
    bytes += static_cast<double>(tensor.elements()) * trained_bytes(tensor);
  }
  return elements == 0 ? element_.trained : bytes / elements;
}

int64_t UnitSizes::part_of(const TrainedShape& tensor) const {
  const int64_t shards = layout_.updates_parts ? layout_.shards.ranks : 1;
  return (tensor.elements() + shards - 1) / shards;
}

// Of a rank: all of the tensor, or its part, which is a vector.
TrainedShape UnitSizes::own_part(const TrainedShape& tensor) const {
  return layout_.updates_parts ? TrainedShape{tensor.name, {part_of(tensor)}} : tensor;
}

double UnitSizes::state_of(const TrainedShape& tensor) const {
  return static_cast<double>(state_bytes_of(own_part(tensor)).device);
}

StateBytes UnitSizes::state_bytes_of(const TrainedShape& tensor) const {
  return state_bytes(job_.optimizer.kind, tensor, static_cast<int64_t>(trained_bytes(tensor)),
                     job_.device.kind == "cuda");
}

// The states of a paged tensor that are on the device for their update.
double UnitSizes::visiting_of(const TrainedShape& tensor) const {
  const TrainedShape own = own_part(tensor);
  if (!row_of(job_.optimizer.kind).state.paged || own.elements() == 0) return 0;
  const auto elements = static_cast<double>(own.elements());
  return std::min(1.0, static_cast<double>(kPagedElementsAtOnce) / elements) *
         static_cast<double>(state_bytes_of(own).host);
}

}  // namespace sftbench
