// What a job would take, by arithmetic: memory of a rank, bytes that it sends, seconds of a step. A
// prediction from the model's shapes and the machine's figures, never a measurement.
//
//   memory    what the tensors take: shards as parallel/flat_layout.h lays them (256-byte
//             alignment, padded to the number of shards), buffers as
//             parallel/sharded_parameters.cpp hands them out, activations as the layers' saved
//             tensors (Korthikanti et al. 2022, arXiv 2205.05198, counted for this engine's
//             kernels)
//   bytes     of each collective operation and group, ring algorithms: all-gather and
//             reduce-scatter of S bytes over N ranks send S (N-1)/N, all-reduce twice that
//   seconds   compute = FLOPs / the rate that the machine reaches; a collective = latency of its
//             hops + bytes / bandwidth (Hockney 1994); both on two resources in the order in which
//             the engine starts them, unit by unit, so that what does not overlap shows
//
// Rows are taken to be model_max_length long. Every layer has to have the same shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// A rank's way to others: each hop costs the latency, all that it sends the bandwidth.
struct LinkModel {
  double latency_s = 0;
  double bytes_per_s = 0;
};

struct MachineModel {
  double flops_per_s = 0;         // that a rank's training reaches, not its peak
  double memory_bytes_per_s = 0;  // of its memory, for the optimizer's update
  double memory_bytes = 0;        // that a rank has; 0: not known
  LinkModel inside;               // between ranks of one node
  LinkModel between;              // between nodes; each rank its own
  bool overlaps = true;  // false: transfers take the core that computes, as Gloo's do where every
                         // core has a rank
};

// What is computed again in the backward pass. kJob: by this engine, every layer but the last where
// the job asks for it, up to the layer's last product, whose result nothing needs. The others are
// for comparison with torch's published figures: kTorchLayers, torch.utils.checkpoint around every
// layer, which stops there, too; kTorchEveryOtherProduct, torchtitan's "selective op", which keeps the results
// of q, v, gate, down and attention.
enum class Recompute { kJob, kTorchLayers, kTorchEveryOtherProduct };

struct MemoryCost {
  double parameters = 0;  // at rest
  double gradients = 0;
  double optimizer_state = 0;
  double gathered = 0;  // buffers of gathered units and of gradients that are not reduced yet
  double activations = 0;
  double logits = 0;

  double total() const {
    return parameters + gradients + optimizer_state + gathered + activations + logits;
  }
};

// Of one operation in one group, in one optimization step of one rank.
struct CollectiveCost {
  std::string group;      // "world", "shards", "replicas"
  std::string operation;  // "all_gather"
  int64_t calls = 0;
  double sent_bytes = 0;
  double seconds = 0;
};

struct StepCost {
  MemoryCost memory;  // bytes
  std::vector<CollectiveCost> collectives;
  double flops = 0;            // of a rank, recomputation included
  double compute_s = 0;        // of these
  double communication_s = 0;  // sum over collectives
  double exposed_s = 0;        // of these, beside no computation
  double optimizer_s = 0;
  double step_s = 0;      // compute + exposed + optimizer
  int64_t positions = 0;  // of all ranks

  double sent_bytes() const;
  double positions_per_second() const { return static_cast<double>(positions) / step_s; }
};

// RunError(kUnsupported): a family, strategy or optimizer whose sizes are not known here.
// InputError: a config.json that cannot be read.
StepCost predict_step(const TrainingJob& job, const MachineModel& machine,
                      Recompute recompute = Recompute::kJob);

// What a rank cannot do without, whatever its rows are like: its parameters, and where the optimizer
// is one that predict_step() knows, gradients and state beside them, which all stand before the first
// update. What is not known counts as 0. Nothing for a job whose sizes are not known. Never throws.
std::optional<MemoryCost> memory_at_least(const TrainingJob& job);

// {prediction: true, memory_bytes: {..., total, available}, fits, step_seconds: {...}, collectives:
// [...], ...}.
Json to_json(const StepCost& cost, const TrainingJob& job, const MachineModel& machine);

}  // namespace sftbench
