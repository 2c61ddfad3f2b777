// One optimization step on two resources: a rank computes, a communicator runs its operations one
// after the other beside that. Operations start in the order of parallel/sharded_parameters.cpp
// and replicated_parameters.cpp, so that the time in which a rank waits follows from it.
#pragma once

#include <cstdint>
#include <string>

namespace sftbench {

struct UnitTimes {
  double gather_s = 0;
  double reduce_s = 0;       // reduce-scatter; all-reduce where every rank updates everything
  double replica_sum_s = 0;  // all-reduce of the shard over replicas
  double forward_s = 0;
  double backward_s = 0;
};

struct ScheduleInput {
  UnitTimes root;  // forward_s and backward_s: of the output projection and the loss
  UnitTimes layer;
  int64_t layers = 0;
  int64_t recomputed_layers = 0;  // the first ones
  double recompute_s = 0;         // of each of them, before its backward pass
  int64_t micro_batches = 1;
  bool overlaps = true;  // false: operations take the core that computes
  bool sharded = false;
  bool reshard_after_forward = false;
  // Of parameters that stay: what was updated is gathered in the first forward pass, all of it at
  // once.
  bool gathers_updates = false;
  bool reduce_each_micro_batch = false;
};

struct ScheduleResult {
  double step_s = 0;
  double compute_s = 0;
  // Operations that were started.
  int64_t root_gathers = 0, layer_gathers = 0, root_reductions = 0, layer_reductions = 0;
  int64_t root_replica_sums = 0, layer_replica_sums = 0;
  // Buffers that were there at once, at most, when their bytes (root and layer, parameters and
  // gradients) were most;
  // `*_bytes` weigh them.
  double peak_bytes = 0;
};

// Bytes of a buffer of each kind, for the peak.
struct BufferBytes {
  double root_parameters = 0, layer_parameters = 0, root_gradients = 0, layer_gradients = 0;
};

ScheduleResult schedule_step(const ScheduleInput& input, const BufferBytes& buffers);

}  // namespace sftbench
