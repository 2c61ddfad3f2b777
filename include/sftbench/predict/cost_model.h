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
//   seconds   compute = products by their shapes + attention + bytes of element-wise kernels, at
//             least the host's time to launch all of it (plan/layer_time.h); a collective = latency
//             of its hops + bytes / bandwidth (Hockney 1994); both on two resources in the order in
//             which the engine starts them, unit by unit, so that what does not overlap shows
//
// Rows are taken to be model_max_length long. Layers that differ count as their mean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/predict/stack_model.h"

namespace sftbench {

// A rank's way to others: each hop costs the latency, all that it sends the bandwidth.
struct LinkModel {
  double latency_s = 0;
  double bytes_per_s = 0;  // of a pair
  // Links that end in the host share what it can move: with n ranks each has (2/n)^0.32 of it
  // (NVIDIA/nccl issue 1639: 35 GB/s with 4 GPUs, 28 with 8).
  bool shared = false;

  double bytes_per_s_of(double ranks) const;
};

// What products of rows x in with in x out reach, measured.
struct ProductRate {
  double rows = 0, out = 0, in = 0;
  double flops_per_s = 0;
};

struct MachineModel {
  double flops_per_s = 0;         // that large products of a rank reach, not its peak
  double memory_bytes_per_s = 0;  // of its memory, for the optimizer's update
  double memory_bytes = 0;        // that a rank has; 0: not known
  LinkModel inside;               // between ranks of one node
  LinkModel between;              // between nodes; each rank its own
  bool overlaps = true;  // false: transfers take the core that computes, as Gloo's do where every
                         // core has a rank
  double attention_flops_per_s = 0;        // 0: attention is as fast as products
  double element_bytes_per_s = 0;          // of element-wise kernels; 0: their time is not counted
  int64_t multiprocessors = 0;             // 0: products of all shapes are equally fast
  std::vector<ProductRate> products = {};  // of CPUs that were probed; empty: nothing was
  double head_flops_per_s = 0;             // of output projection and loss together; 0: as products
  // Between ranks of one node that add up what they receive; no rate: as `inside`.
  LinkModel inside_sums = {};
  // Of a CPU in a run, fitted to small ones (plan/probe_jobs.h). The thread that starts an operator
  // also works on it, so launches add to the time. A GPU does both at once.
  bool launches_add = false;
  double compute_scale = 1;    // time of products, attention and elements, over that of each alone
  double fp8_flops_per_s = 0;  // of layers' weights in float8; 0: they are not multiplied in it
  // Between a GPU and the memory of its host, each way; 0: copies are not counted.
  double host_bytes_per_s = 0;
  StackModel stack = {};
};

// What is computed again in the backward pass. kJob: by this engine, every layer but the last where
// the job asks for it, up to the layer's last product, whose result nothing needs. The others are
// for comparison with torch's published figures: kTorchLayers, torch.utils.checkpoint around every
// layer, which stops there, too; kTorchEveryOtherProduct, torchtitan's "selective op", which keeps
// the results of q, v, gate, down and attention.
enum class Recompute { kJob, kTorchLayers, kTorchEveryOtherProduct };

struct MemoryCost {
  double parameters = 0;  // at rest
  double gradients = 0;
  double optimizer_state = 0;  // on the device
  double gathered = 0;  // buffers of gathered units and of gradients that are not reduced yet
  double activations = 0;
  double logits = 0;
  double workspace = 0;        // of the products' library
  double update = 0;           // copies while the optimizer updates, when activations are gone
  double freed_gradients = 0;  // that are not there while activations are most
  // Free blocks that the allocator keeps until nothing else is left: no part of the total.
  double fragmentation = 0;
  // In the host's memory instead.
  double offloaded_state = 0, offloaded_activations = 0;
  double offloaded_parameters = 0;  // with their gradients

  double total() const {
    return parameters + optimizer_state + workspace +
           std::max(gradients - freed_gradients + gathered + activations + logits,
                    gradients + update);
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
  double copies_s = 0;    // to the host's memory and back, beside no computation
  double host_s = 0;      // what a step does once
  double step_s = 0;      // compute + exposed + optimizer + copies + host
  int64_t positions = 0;  // of all ranks

  double sent_bytes() const;
  double positions_per_second() const { return static_cast<double>(positions) / step_s; }
};

// RunError(kUnsupported): a family, strategy or optimizer whose sizes are not known here.
// InputError: a config.json that cannot be read.
StepCost predict_step(const TrainingJob& job, const MachineModel& machine,
                      Recompute recompute = Recompute::kJob);

// What a rank cannot do without, whatever its rows are like: its parameters, and where the
// optimizer is one that predict_step() knows, gradients and state beside them, which all stand
// before the first update. What is not known counts as 0. Nothing for a job whose sizes are not
// known. Never throws.
std::optional<MemoryCost> memory_at_least(const TrainingJob& job);

// {prediction: true, memory_bytes: {..., total, available}, fits, step_seconds: {...}, collectives:
// [...], ...}.
Json to_json(const StepCost& cost, const TrainingJob& job, const MachineModel& machine);

}  // namespace sftbench
