#include "sftbench/predict/cost_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "predict/layer_time.h"
#include "predict/memory_model.h"
#include "predict/model_work.h"
#include "predict/step_schedule.h"
#include "predict/unit_bytes.h"
#include "sftbench/base/error.h"
#include "sftbench/plan/context_cost.h"

namespace sftbench {
namespace {

// Seconds of a ring over the group: each rank sends `bytes`, hop by hop. A ring enters and leaves a
// node once for each of its ranks, side by side, so that their links to other nodes add up. A bus
// that GPUs share is no less loaded where some of them stand in another node: what leaves takes it,
// too.
double ring_seconds(const GroupShape& group, double bytes, double passes,
                    const MachineModel& machine, const LinkModel& link) {
  if (group.ranks < 2) return 0;
  const auto between = static_cast<double>(group.nodes > 1 ? group.nodes - 1 : 0);
  const auto inside = static_cast<double>(group.ranks - 1) - between;
  const double latency_s = passes * (inside * link.latency_s + between * machine.between.latency_s);
  const double local = static_cast<double>(group.ranks) / static_cast<double>(group.nodes);
  double bytes_per_s =
      group.ranks > group.nodes ? link.bytes_per_s_of(group.ranks) : machine.between.bytes_per_s;
  if (group.nodes > 1) bytes_per_s = std::min(bytes_per_s, local * machine.between.bytes_per_s);
  return latency_s + bytes / bytes_per_s;
}

double gather_seconds(const GroupShape& group, double bytes, const MachineModel& machine) {
  return ring_seconds(group, bytes, 1, machine, machine.inside);
}

const LinkModel& link_of_sums(const MachineModel& machine) {
  return machine.inside_sums.bytes_per_s > 0 ? machine.inside_sums : machine.inside;
}

double reduce_seconds(const GroupShape& group, double bytes, const MachineModel& machine) {
  return ring_seconds(group, bytes, 1, machine, link_of_sums(machine));
}

double sent_share(const GroupShape& group) {
  return static_cast<double>(group.ranks - 1) / static_cast<double>(group.ranks);
}

class Predictor {
 public:
  Predictor(const TrainingJob& job, const MachineModel& machine, Recompute recompute)
      : job_(job),
        machine_(machine),
        sizes_(job, machine.stack),
        layout_(sizes_.layout()),
        work_(model_work(job, recompute_of(recompute, machine.stack))),
        seconds_(work_seconds(job, work_, machine, recompute_of(recompute, machine.stack))),
        root_(sizes_.of(work_.root)),
        layer_(sizes_.of(work_.layer)),
        memory_(job, work_, machine.stack, sizes_,
                recompute == Recompute::kJob && machine.stack.logit_bytes == 0),
        context_(context_cost(job, sizes_.element().computed)) {}

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
    cost.memory = memory_.at_peak(schedule.peak_bytes);
    // Read: parameter, gradient, state; written: parameter and state.
    const MemoryCost& memory = cost.memory;
    const double trained = root_.trained + layers * layer_.trained;
    if (machine_.memory_bytes_per_s > 0) {
      cost.optimizer_s = machine_.stack.update_scale *
                         (2 * trained + std::min(trained, memory.gradients) +
                          2 * (memory.optimizer_state + memory.offloaded_state)) /
                         machine_.memory_bytes_per_s;
    }
    put_copies(cost);
    cost.host_s = machine_.stack.step_s;
    cost.step_s = cost.compute_s + cost.exposed_s + cost.optimizer_s + cost.copies_s + cost.host_s;
    cost.positions = work_.positions * job_.batches.gradient_accumulation_steps * job_.device.ranks;
    return cost;
  }

  const MemoryModel& memory() const { return memory_; }

 private:
  // What visits for the update comes while as much goes, and nothing else is computed. Parameters,
  // gradients and inputs of layers travel beside forward and backward passes. ZeRO updates on the
  // host: gradients go there, parameters come back, and the host's own time is not counted.
  void put_copies(StepCost& cost) const {
    if (machine_.host_bytes_per_s <= 0) return;
    const MemoryCost& memory = cost.memory;
    const double trained = root_.trained + static_cast<double>(work_.layers) * layer_.trained;
    const bool updates_there = sizes_.element().master > 0;
    double alone = 0, beside = 2 * memory.offloaded_activations;
    if (memory.offloaded_state > 0) alone = updates_there ? 2 * trained : memory.offloaded_state;
    if (memory.offloaded_parameters > 0) {
      const double parameters = std::max(0.0, memory.offloaded_parameters - trained);
      beside += 2 * parameters + trained;
      if (!updates_there) alone += memory.offloaded_parameters;
    }
    beside *= static_cast<double>(job_.batches.gradient_accumulation_steps);
    cost.copies_s = alone / machine_.host_bytes_per_s +
                    std::max(0.0, beside / machine_.host_bytes_per_s - cost.compute_s);
  }

  // A stack of torch's own recomputes as torch does.
  Recompute recompute_of(Recompute recompute, const StackModel& stack) const {
    const bool again = job_.activations.gradient_checkpointing && stack.recomputes_all_layers;
    return again && recompute == Recompute::kJob ? Recompute::kTorchLayers : recompute;
  }

  UnitTimes unit_times(const UnitBytes& unit) const {
    const GroupShape& shards = layout_.shards;
    const GroupShape& replicas = layout_.replicas;
    const double replicated = sent_share(replicas) * unit.replicated;
    const double sums_s = reduce_seconds(replicas, replicated, machine_) +
                          gather_seconds(replicas, replicated, machine_);
    UnitTimes times;
    if (layout_.sharded) {
      times.gather_s = gather_seconds(shards, sent_share(shards) * unit.gathered, machine_);
      times.reduce_s = reduce_seconds(shards, sent_share(shards) * unit.reduced, machine_);
      times.replica_sum_s = sums_s;
    } else if (layout_.updates_parts) {
      times.gather_s = gather_seconds(shards, sent_share(shards) * unit.updated, machine_);
      times.reduce_s = reduce_seconds(shards, sent_share(shards) * unit.reduced, machine_);
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
        layout_.divides_gradients && job_.parallel.gradient_sync == GradientSync::kEach;
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
    const GroupShape& shards = layout_.shards;
    const GroupShape& replicas = layout_.replicas;
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
  GroupShape context_group() const {
    const int64_t on_a_node = std::max<int64_t>(1, job_.device.ranks / job_.device.nodes);
    return {"context", context_.ranks, (context_.ranks + on_a_node - 1) / on_a_node};
  }

  // Seconds of a pass over a layer that nothing hides. The ring travels beside the attention of all
  // blocks but the last.
  double shown_context_s(double sent_bytes, double attention_flops) const {
    const double beside_s = sent_share(context_group()) * attention_flops / machine_.flops_per_s;
    return std::max(0.0, context_pass_s(sent_bytes) - (machine_.overlaps ? beside_s : 0));
  }
  double context_pass_s(double sent_bytes) const {
    return gather_seconds(context_group(), sent_bytes, machine_);
  }

  void put_context(StepCost& cost) const {
    if (context_.ranks == 1) return;
    const bool again = job_.activations.gradient_checkpointing;
    const auto micro_batches = static_cast<double>(job_.batches.gradient_accumulation_steps);
    const double forward =
        micro_batches * static_cast<double>(work_.layers + (again ? work_.recomputed_layers : 0));
    const double backward = micro_batches * static_cast<double>(work_.layers);
    const double sent = forward * context_.forward_bytes + backward * context_.backward_bytes;
    const double seconds = forward * context_pass_s(context_.forward_bytes) +
                           backward * context_pass_s(context_.backward_bytes);
    cost.collectives.push_back(
        {"context", "all_to_all", static_cast<int64_t>(forward + backward), sent, seconds});
    cost.communication_s += seconds;
    cost.exposed_s += forward * shown_context_s(context_.forward_bytes, context_.attention_flops) +
                      backward * shown_context_s(context_.backward_bytes,
                                                 kAttentionBackward * context_.attention_flops);
  }

  const TrainingJob& job_;
  const MachineModel& machine_;
  UnitSizes sizes_;
  const RankLayout& layout_;
  ModelWork work_;
  WorkSeconds seconds_;
  UnitBytes root_, layer_;
  MemoryModel memory_;
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
    return Predictor(job, nothing_of_it, Recompute::kJob).memory().between_backward_and_update();
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
            {"fragmentation", m.fragmentation},
            {"total", m.total()},
            {"available", known ? Json(machine.memory_bytes) : Json()}}},
          {"fits", known ? Json(m.total() <= machine.memory_bytes) : Json()},
          {"step_seconds",
           {{"total", cost.step_s},
            {"compute", cost.compute_s},
            {"communication", cost.communication_s},
            {"communication_exposed", cost.exposed_s},
            {"optimizer", cost.optimizer_s},
            {"host_copies", cost.copies_s},
            {"host", cost.host_s}}},
          {"padded_tokens_per_second", cost.positions_per_second()},
          {"padded_tokens_per_second_per_device",
           cost.positions_per_second() / static_cast<double>(job.device.ranks)},
          {"flops_per_step_and_rank", cost.flops},
          {"sent_bytes_per_step", cost.sent_bytes()},
          {"collectives", std::move(collectives)}};
}

}  // namespace sftbench
