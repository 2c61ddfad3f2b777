#include "sftbench/plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/context_cost.h"
#include "plan/layer_time.h"
#include "plan/model_work.h"
#include "plan/peak_memory.h"
#include "plan/step_schedule.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Of ops/linear_cross_entropy.cpp: on CPUs, and on GPUs by whether the weight is trained, whole tiles.
constexpr double kLogitChunkBytes = 32 << 20, kGpuLogitChunkBytes = 256 << 20;
constexpr double kGpuTrainedLogitChunkBytes = 2.0 * (1 << 30);
constexpr double kGpuLogitRows = 256;
constexpr double kFloatBytes = 4;
// That libtorch's allocator gives cuBLAS on Hopper (ATen/cuda/CUDABlas.cpp); a quarter elsewhere.
constexpr double kWorkspaceBytes = 32 << 20;

// A group of ranks: how many, on how many nodes.
struct Group {
  std::string name;
  int64_t ranks = 1;
  int64_t nodes = 1;
};

// A strategy as numbers.
struct Layout {
  Group shards{"shards", 1, 1};
  Group replicas{"replicas", 1, 1};
  bool sharded = false;
  bool reshard = false;
  bool updates_parts = false;
};

Layout layout_of(const TrainingJob& job) {
  const int64_t ranks = job.device.ranks;
  const int64_t nodes = job.device.nodes;
  const StrategyRow& strategy = row_of(job.parallel.strategy);
  Layout layout;
  layout.sharded = strategy.shards();
  layout.reshard = strategy.reshard_after_forward;
  layout.updates_parts = strategy.updates_parts();
  // One rank has nobody to share with, unless it keeps its shard on the host.
  if (ranks == 1) return job.parallel.offload && strategy.shards() ? layout : Layout();
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
                           std::to_string(ranks) + " ranks on " + std::to_string(nodes) +
                           " nodes are not several ranks on each of several nodes");
      }
      layout.shards = {"shards", ranks / nodes, 1};
      layout.replicas = {"replicas", nodes, nodes};
  }
  return layout;
}

// Seconds of a ring over the group: each rank sends `bytes`, hop by hop. A ring enters and leaves a
// node once for each of its ranks, side by side, so that their links to other nodes add up.
double ring_seconds(const Group& group, double bytes, double passes, const MachineModel& machine) {
  if (group.ranks < 2) return 0;
  const auto between = static_cast<double>(group.nodes > 1 ? group.nodes - 1 : 0);
  const auto inside = static_cast<double>(group.ranks - 1) - between;
  const double latency_s =
      passes * (inside * machine.inside.latency_s + between * machine.between.latency_s);
  const double local = static_cast<double>(group.ranks) / static_cast<double>(group.nodes);
  double bytes_per_s = group.ranks > group.nodes ? machine.inside.bytes_per_s_of(local)
                                                 : machine.between.bytes_per_s;
  if (group.nodes > 1) bytes_per_s = std::min(bytes_per_s, local * machine.between.bytes_per_s);
  return latency_s + bytes / bytes_per_s;
}

double sent_share(const Group& group) {
  return static_cast<double>(group.ranks - 1) / static_cast<double>(group.ranks);
}

// Bytes of one unit, whole.
struct UnitBytes {
  double shard = 0;  // at rest, of this rank
  double shard_grads = 0;
  double gathered = 0;
  double gradients = 0;   // before their reduction
  double reduced = 0;     // what a reduction is about
  double replicated = 0;  // what replicas sum: the shard, or everything
  double updated = 0;     // trained parameters as they are kept
  double trained = 0;     // elements that this rank updates
  double state = 0;       // of the optimizer, on the device
  double visiting = 0;    // of its states that live in the host's memory: the most at a time
};

class Predictor {
 public:
  Predictor(const TrainingJob& job, const MachineModel& machine, Recompute recompute)
      : job_(job),
        machine_(machine),
        layout_(layout_of(job)),
        work_(model_work(job, recompute_of(recompute, machine.stack))),
        seconds_(work_seconds(job, work_, machine, recompute_of(recompute, machine.stack))),
        stored_(static_cast<double>(row_of(job.precision.torch_dtype).bytes)),
        computed_(job.precision.autocast == Autocast::kNo ? stored_ : 2),
        trained_(machine.stack.upcasts_shards && layout_.sharded && computed_ < kFloatBytes &&
                         job.precision.autocast != Autocast::kNo
                     ? kFloatBytes
                     : stored_),
        gathered_(layout_.sharded ? computed_ : stored_),
        reduced_(job.parallel.reduce_dtype.empty()
                     ? gathered_
                     : (job.parallel.reduce_dtype == "float32" ? 4 : 2)),
        follows_engine_(recompute == Recompute::kJob && machine.stack.logit_bytes == 0 && on_gpu()),
        root_(unit_bytes(work_.root)),
        layer_(unit_bytes(work_.layer)),
        context_(context_cost(job, computed_)) {}

  StepCost predict() {
    const auto layers = static_cast<double>(work_.layers);
    const auto micro_batches = static_cast<double>(job_.batches.gradient_accumulation_steps);
    StepCost cost;
    const UnitFlops& layer = work_.layer_flops;
    const UnitFlops& head = work_.head_flops;
    cost.flops = micro_batches * (layers * (layer.forward + layer.backward) +
                                  static_cast<double>(work_.recomputed_layers) * layer.recomputed +
                                  head.forward + head.backward);
    const BufferBytes buffers = {root_.gathered, layer_.gathered, root_.gradients,
                                 layer_.gradients};
    const ScheduleResult schedule = schedule_step(schedule_input(), buffers);
    cost.compute_s = schedule.compute_s;
    put_collectives(schedule, cost);
    for (const CollectiveCost& collective : cost.collectives) {
      cost.communication_s += collective.seconds;
    }
    // What hides behind computation slows that down.
    const double shown_s = schedule.step_s - schedule.compute_s;
    const double hidden_s = std::max(0.0, cost.communication_s - shown_s);
    cost.exposed_s = shown_s + machine_.stack.contention * hidden_s;
    put_context(cost);
    put_memory(schedule, cost.memory);
    // Read: parameter, gradient, state; written: parameter and state.
    const MemoryCost& memory = cost.memory;
    const double trained = (root_.trained + layers * layer_.trained) * trained_;
    if (machine_.memory_bytes_per_s > 0) {
      cost.optimizer_s = machine_.stack.update_scale *
                         (2 * trained + std::min(trained, memory.gradients) +
                          2 * (memory.optimizer_state + memory.offloaded_state)) /
                         machine_.memory_bytes_per_s;
    }
    cost.host_s = machine_.stack.step_s;
    cost.step_s = cost.compute_s + cost.exposed_s + cost.optimizer_s + cost.host_s;
    cost.positions = work_.positions * job_.batches.gradient_accumulation_steps * job_.device.ranks;
    return cost;
  }

  // Parameters, gradients, and the optimizer's state.
  MemoryCost between_backward_and_update() const {
    const auto layers = static_cast<double>(work_.layers);
    MemoryCost memory;
    memory.parameters = root_.shard + layers * layer_.shard;
    // What updates in the backward frees each gradient there and then.
    if (!row_of(job_.optimizer.kind).updates_in_backward()) {
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
    return memory;
  }

 private:
  // A stack of torch's own recomputes as torch does.
  Recompute recompute_of(Recompute recompute, const StackModel& stack) const {
    const bool again = job_.activations.gradient_checkpointing && stack.recomputes_all_layers;
    return again && recompute == Recompute::kJob ? Recompute::kTorchLayers : recompute;
  }

  UnitBytes unit_bytes(const UnitTensors& unit) const {
    const int64_t shards = layout_.shards.ranks;
    const auto element = static_cast<int64_t>(std::min(stored_, gathered_));
    const auto padded = [&](const std::vector<TrainedShape>& tensors) {
      if (tensors.empty()) return 0.0;
      if (layout_.sharded) return static_cast<double>(flat_elements(tensors, element, shards));
      double elements = 0;
      for (const TrainedShape& tensor : tensors) elements += static_cast<double>(tensor.elements());
      return elements;
    };
    const double frozen = padded(unit.frozen);
    const double trained = padded(unit.trained);
    const auto parts = static_cast<double>(layout_.sharded ? shards : 1);
    UnitBytes bytes;
    const double quantized = unit.quantized * kQuantizedBytes;
    bytes.shard = (frozen * stored_ + trained * trained_ + quantized) / parts;
    bytes.trained = trained / static_cast<double>(shards);
    bytes.shard_grads = trained / parts * trained_;
    bytes.updated = trained * trained_;
    bytes.gathered = (frozen + trained) * gathered_ + quantized;
    bytes.gradients = trained * gathered_;
    bytes.reduced = trained * reduced_;
    bytes.replicated = bytes.reduced / parts;
    for (const TrainedShape& tensor : unit.trained) {
      bytes.state += state_of(tensor);
      bytes.visiting = std::max(bytes.visiting, visiting_of(tensor));
    }
    return bytes;
  }

  // Elements of which a rank updates at most.
  int64_t part_of(const TrainedShape& tensor) const {
    const int64_t shards = layout_.updates_parts ? layout_.shards.ranks : 1;
    return (tensor.elements() + shards - 1) / shards;
  }

  // Of a rank: all of the tensor, or its part, which is a vector.
  TrainedShape own_part(const TrainedShape& tensor) const {
    return layout_.updates_parts ? TrainedShape{tensor.name, {part_of(tensor)}} : tensor;
  }

  // On the device, or where it waits on the host.
  double state_of(const TrainedShape& tensor) const {
    return static_cast<double>(state_bytes_of(own_part(tensor)).device);
  }

  StateBytes state_bytes_of(const TrainedShape& tensor) const {
    return state_bytes(job_.optimizer.kind, tensor, static_cast<int64_t>(trained_), on_gpu());
  }

  // The states of a paged tensor that are on the device for their update.
  double visiting_of(const TrainedShape& tensor) const {
    const TrainedShape own = own_part(tensor);
    if (!row_of(job_.optimizer.kind).state.paged || own.elements() == 0) return 0;
    const auto elements = static_cast<double>(own.elements());
    return std::min(1.0, static_cast<double>(kPagedElementsAtOnce) / elements) *
           static_cast<double>(state_bytes_of(own).host);
  }

  bool on_gpu() const { return job_.device.kind == "cuda"; }

  UnitTimes unit_times(const UnitBytes& unit) const {
    const Group& shards = layout_.shards;
    const Group& replicas = layout_.replicas;
    const double sums_s =
        ring_seconds(replicas, 2 * sent_share(replicas) * unit.replicated, 2, machine_);
    UnitTimes times;
    if (layout_.sharded) {
      times.gather_s = ring_seconds(shards, sent_share(shards) * unit.gathered, 1, machine_);
      times.reduce_s = ring_seconds(shards, sent_share(shards) * unit.reduced, 1, machine_);
      times.replica_sum_s = sums_s;
    } else if (layout_.updates_parts) {
      times.gather_s = ring_seconds(shards, sent_share(shards) * unit.updated, 1, machine_);
      times.reduce_s = ring_seconds(shards, sent_share(shards) * unit.reduced, 1, machine_);
    } else {
      times.reduce_s = sums_s;
    }
    return times;
  }

  ScheduleInput schedule_input() const {
    ScheduleInput input;
    input.root = unit_times(root_);
    input.root.forward_s = seconds_.head.forward;
    input.root.backward_s = seconds_.head.backward;
    input.layer = unit_times(layer_);
    input.layer.forward_s = seconds_.layer.forward;
    input.layer.backward_s = seconds_.layer.backward;
    input.recomputed_layers = work_.recomputed_layers;
    input.recompute_s = seconds_.layer.recomputed;
    input.layers = work_.layers;
    input.micro_batches = job_.batches.gradient_accumulation_steps;
    input.overlaps = machine_.overlaps;
    input.sharded = layout_.sharded;
    input.reshard_after_forward = layout_.reshard;
    input.gathers_updates = layout_.updates_parts && !layout_.sharded;
    input.reduce_each_micro_batch =
        layout_.sharded && job_.parallel.gradient_sync == GradientSync::kEach;
    return input;
  }

  // Operations on nothing (a unit without trained tensors) are not started.
  void put_collective(StepCost& cost, const std::string& group, const std::string& operation,
                      double share, int64_t roots, double root_bytes, double root_s, int64_t layers,
                      double layer_bytes, double layer_s) const {
    if (root_bytes <= 0) roots = 0;
    if (layer_bytes <= 0) layers = 0;
    if (roots + layers == 0 || share <= 0) return;
    const auto root_calls = static_cast<double>(roots);
    const auto layer_calls = static_cast<double>(layers);
    cost.collectives.push_back({group, operation, roots + layers,
                                share * (root_calls * root_bytes + layer_calls * layer_bytes),
                                root_calls * root_s + layer_calls * layer_s});
  }

  void put_collectives(const ScheduleResult& s, StepCost& cost) const {
    const UnitTimes root = unit_times(root_);
    const UnitTimes layer = unit_times(layer_);
    const Group& shards = layout_.shards;
    const Group& replicas = layout_.replicas;
    if (!layout_.updates_parts) {
      put_collective(cost, replicas.name, "all_reduce", 2 * sent_share(replicas), s.root_reductions,
                     root_.replicated, root.reduce_s, s.layer_reductions, layer_.replicated,
                     layer.reduce_s);
      return;
    }
    const double UnitBytes::*gathered =
        layout_.sharded ? &UnitBytes::gathered : &UnitBytes::updated;
    put_collective(cost, shards.name, "all_gather", sent_share(shards), s.root_gathers,
                   root_.*gathered, root.gather_s, s.layer_gathers, layer_.*gathered,
                   layer.gather_s);
    put_collective(cost, shards.name, "reduce_scatter", sent_share(shards), s.root_reductions,
                   root_.reduced, root.reduce_s, s.layer_reductions, layer_.reduced,
                   layer.reduce_s);
    put_collective(cost, replicas.name, "all_reduce", 2 * sent_share(replicas), s.root_replica_sums,
                   root_.replicated, root.replica_sum_s, s.layer_replica_sums, layer_.replicated,
                   layer.replica_sum_s);
  }

  // Neighbors: on one node as long as they are no more than it has.
  Group context_group() const {
    const int64_t on_a_node = std::max<int64_t>(1, job_.device.ranks / job_.device.nodes);
    return {"context", context_.ranks, (context_.ranks + on_a_node - 1) / on_a_node};
  }

  // Seconds of a pass over a layer that nothing hides. A ring travels beside the attention of all
  // blocks but the last; what is gathered, beside that of a rank's own.
  double shown_context_s(double sent_bytes, double attention_flops) const {
    const double share = job_.parallel.context_rotation == ContextRotation::kRing
                             ? sent_share(context_group())
                             : 1.0 / static_cast<double>(context_.ranks);
    const double beside_s = share * attention_flops / machine_.flops_per_s;
    return std::max(0.0, context_pass_s(sent_bytes) - (machine_.overlaps ? beside_s : 0));
  }
  double context_pass_s(double sent_bytes) const {
    return ring_seconds(context_group(), sent_bytes, 1, machine_);
  }

  void put_context(StepCost& cost) const {
    if (context_.ranks == 1) return;
    const auto micro_batches = static_cast<double>(job_.batches.gradient_accumulation_steps);
    const double forward =
        micro_batches * static_cast<double>(work_.layers + (again() ? work_.recomputed_layers : 0));
    const double backward = micro_batches * static_cast<double>(work_.layers);
    const double sent = forward * context_.forward_bytes + backward * context_.backward_bytes;
    const double seconds = forward * context_pass_s(context_.forward_bytes) +
                           backward * context_pass_s(context_.backward_bytes);
    const bool gathers = job_.parallel.context_rotation == ContextRotation::kAllGather;
    cost.collectives.push_back({"context", gathers ? "all_gather" : "all_to_all",
                                static_cast<int64_t>(forward + backward), sent, seconds});
    cost.communication_s += seconds;
    cost.exposed_s += forward * shown_context_s(context_.forward_bytes, context_.attention_flops) +
                      backward * shown_context_s(context_.backward_bytes,
                                                 kAttentionBackward * context_.attention_flops);
  }

  bool again() const { return job_.activations.gradient_checkpointing; }

  void put_memory(const ScheduleResult& schedule, MemoryCost& memory) const {
    const auto layers = static_cast<double>(work_.layers);
    const auto positions = static_cast<double>(work_.positions);
    memory = between_backward_and_update();
    memory.gathered = schedule.peak_bytes;
    if (follows_engine_) return put_peak(memory);
    const StackModel& stack = machine_.stack;
    const bool again = work_.kept_when_recomputed < work_.kept_per_position;
    const bool fused = job_.kernels.fused_rms_norm || work_.layer_norm;
    const double kept =
        work_.kept_per_position * (fused ? stack.kept_scale_fused : stack.kept_scale);
    const double here = again ? inputs_on_device() : layers;
    const double inputs = here * work_.kept_when_recomputed;
    memory.offloaded_activations =
        positions * computed_ * (layers - here) * work_.kept_when_recomputed;
    const double copies = layout_.sharded ? stack.sharded_checkpoints - 1 : 0;
    const double layer = positions * computed_ * (copies * inputs + kept);
    memory.activations = positions * computed_ * (again ? inputs : layers * kept);
    memory.activations += context_.backward_buffers;
    memory.logits = logit_bytes(positions * static_cast<double>(work_.vocabulary));
    memory.update = stack.update_copies * (root_.trained + layers * layer_.trained) * trained_ +
                    2 * offloaded_chunk_bytes();
    const bool frees = stack.frees_gradients && job_.batches.gradient_accumulation_steps == 1;
    if (frees) memory.freed_gradients = memory.gradients;
    if (!again) return;
    // The loss is done before a layer is recomputed: the larger of the two counts. This engine's
    // chunks stay until the backward pass.
    const bool apart = stack.logit_bytes > 0;
    memory.activations += apart ? std::max(0.0, layer - memory.logits) : layer;
  }

  // Of this engine.
  void put_peak(MemoryCost& memory) const {
    const auto layers = static_cast<double>(work_.layers);
    const double value = static_cast<double>(work_.positions) * computed_;
    const bool again = job_.activations.gradient_checkpointing;
    const bool once = job_.parallel.gradient_sync == GradientSync::kLast ||
                      job_.batches.gradient_accumulation_steps == 1;
    const double here = again ? inputs_on_device() : layers;
    memory.offloaded_activations = value * (layers - here) * work_.hidden;
    const PeakParts peak =
        peak_parts({.waiting = value * here * (again ? work_.hidden : work_.kept_by_engine),
                    .layer = again ? value * work_.kept_at_most : 0,
                    .backward = std::max(value * work_.backward_values, context_.backward_buffers),
                    .logits = logit_bytes(static_cast<double>(work_.positions * work_.vocabulary)),
                    .hidden = value * work_.hidden,
                    .gradients = memory.gradients,
                    .gradients_come_late = layout_.sharded && once});
    memory.workspace = kWorkspaceBytes;
    memory.activations = peak.activations;
    memory.logits = peak.logits;
    memory.freed_gradients = peak.freed_gradients;
    memory.update = memory.gathered + 2 * offloaded_chunk_bytes();  // the buffers stay
  }

  // Of checkpointed layers. The first stays; others that wait on the host are there while they
  // leave or come back, of which two are at once.
  double inputs_on_device() const {
    constexpr double kAtOnce = 3;
    const auto layers = static_cast<double>(work_.layers);
    const bool on_host = job_.activations.offload && on_gpu();
    return on_host ? std::min(layers, kAtOnce) : layers;
  }

  bool offloads_shards() const { return layout_.sharded && job_.parallel.offload && on_gpu(); }

  bool offloads_state() const {
    return (job_.optimizer.offload_state && on_gpu()) || offloads_shards();
  }

  // One buffer while the device updates, at most: states of a chunk, or of a tensor that has more
  // elements, with parameters and gradients where these visit, too.
  double offloaded_chunk_bytes() const {
    if (!offloads_state()) return 0;
    const double beside = offloads_shards() ? 2 * trained_ : 0;  // of an element
    double elements = 0, bytes = 0, all_elements = 0, all_bytes = 0;
    for (const auto& [unit, count] :
         {std::pair{&work_.root, int64_t{1}}, std::pair{&work_.layer, work_.layers}}) {
      for (const TrainedShape& tensor : unit->trained) {
        const auto part = static_cast<double>(part_of(tensor));
        const double visits = state_of(tensor) + beside * part;
        elements = std::max(elements, part);
        bytes = std::max(bytes, visits);
        all_elements += static_cast<double>(count) * part;
        all_bytes += static_cast<double>(count) * visits;
      }
    }
    const double chunk = std::min(all_elements, static_cast<double>(kOffloadedChunkElements));
    return elements >= chunk ? bytes : all_bytes / all_elements * chunk;
  }

  double logit_chunk_bytes() const {
    if (!on_gpu()) return kLogitChunkBytes;
    const bool trained = row_of(job_.tuning).trains_weights;
    const double bytes = trained ? kGpuTrainedLogitChunkBytes : kGpuLogitChunkBytes;
    const double tile_bytes = kGpuLogitRows * static_cast<double>(work_.vocabulary) * computed_;
    return std::max(1.0, std::floor(bytes / tile_bytes)) * tile_bytes;
  }

  double logit_bytes(double logits) const {
    const StackModel& stack = machine_.stack;
    const bool fused = job_.kernels.fused_loss;
    if (stack.logit_bytes > 0)
      return logits * (fused ? stack.logit_bytes_fused : stack.logit_bytes);
    // Whole: in the compute dtype, in float32 for the loss, and the gradient of these.
    const double whole = logits * (computed_ + 2 * kFloatBytes);
    return fused ? std::min(logit_chunk_bytes(), logits * computed_) : whole;
  }

  const TrainingJob& job_;
  const MachineModel& machine_;
  Layout layout_;
  ModelWork work_;
  WorkSeconds seconds_;
  double stored_;        // bytes of a parameter at rest
  double computed_;      // of a value in a product
  double trained_;       // of a trained parameter at rest, of its gradient and of its state
  double gathered_;      // of a parameter that is gathered
  double reduced_;       // of a gradient that is reduced
  bool follows_engine_;  // and not another implementation, or torch's ways of recomputing
  UnitBytes root_, layer_;
  ContextCost context_;
};

}  // namespace

double LinkModel::bytes_per_s_of(double ranks) const {
  constexpr double kSharing = 0.32;
  return shared && ranks > 2 ? bytes_per_s * std::pow(2 / ranks, kSharing) : bytes_per_s;
}

double StepCost::sent_bytes() const {
  double bytes = 0;
  for (const CollectiveCost& collective : collectives) bytes += collective.sent_bytes;
  return bytes;
}

StepCost predict_step(const TrainingJob& job, const MachineModel& machine, Recompute recompute) {
  check(machine.flops_per_s > 0, "the machine computes");
  return Predictor(job, machine, recompute).predict();
}

std::optional<MemoryCost> memory_at_least(const TrainingJob& job) {
  try {
    const MachineModel nothing_of_it;
    return Predictor(job, nothing_of_it, Recompute::kJob).between_backward_and_update();
  } catch (const std::exception&) {
    return {};
  }
}

Json to_json(const StepCost& cost, const TrainingJob& job, const MachineModel& machine) {
  Json collectives = Json::array();
  for (const CollectiveCost& c : cost.collectives) {
    collectives.push_back({{"group", c.group},
                           {"operation", c.operation},
                           {"calls_per_step", c.calls},
                           {"sent_bytes_per_step", c.sent_bytes},
                           {"seconds_per_step", c.seconds}});
  }
  const MemoryCost& m = cost.memory;
  const bool known = machine.memory_bytes > 0;
  return {{"prediction", true},
          {"strategy", name_of(job.parallel.strategy)},
          {"ranks", job.device.ranks},
          {"nodes", job.device.nodes},
          {"memory_bytes",
           {{"parameters", m.parameters},
            {"gradients", m.gradients},
            {"optimizer_state", m.optimizer_state},
            {"offloaded_state", m.offloaded_state},
            {"offloaded_activations", m.offloaded_activations},
            {"offloaded_parameters", m.offloaded_parameters},
            {"gathered", m.gathered},
            {"activations", m.activations},
            {"logits", m.logits},
            {"update", m.update},
            {"workspace", m.workspace},
            {"total", m.total()},
            {"available", known ? Json(machine.memory_bytes) : Json()}}},
          {"fits", known ? Json(m.total() <= machine.memory_bytes) : Json()},
          {"step_seconds",
           {{"total", cost.step_s},
            {"compute", cost.compute_s},
            {"communication", cost.communication_s},
            {"communication_exposed", cost.exposed_s},
            {"optimizer", cost.optimizer_s},
            {"host", cost.host_s}}},
          {"padded_tokens_per_second", cost.positions_per_second()},
          {"padded_tokens_per_second_per_device",
           cost.positions_per_second() / static_cast<double>(job.device.ranks)},
          {"flops_per_step_and_rank", cost.flops},
          {"sent_bytes_per_step", cost.sent_bytes()},
          {"collectives", std::move(collectives)}};
}

}  // namespace sftbench
