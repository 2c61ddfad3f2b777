// One unit of sharded parameters: its shard, how it is gathered into a buffer where the model's
// tensors then point, and how its gradients become the gradients of the shard. When to do which is
// the schedule's business (sharded_parameters.cpp).
//
// The parameters of a unit lie in segments, one for each dtype and each of frozen and trained:
// frozen ones are gathered and never reduced. The model's tensors stay the same objects throughout,
// leaves of autograd that point to a buffer while the unit is gathered and to nothing else while it
// is not.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/flat_layout.h"
#include "sftbench/ops/copy_stream.h"
#include "sftbench/parallel/communicator.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

class ShardedUnit {
 public:
  // Keeps rank `rank`'s part of what the unit's tensors hold after `fill`, which see: on the host
  // where there are `copies`, which outlive the unit. REQUIRES: they are contiguous then.
  ShardedUnit(const ParameterUnit& unit, const ShardingOptions& options, int64_t rank,
              int64_t shards, const FillUnit& fill, ops::CopyStream* copies);

  // Bytes of a buffer for all of its parameters, or for all of its gradients.
  int64_t gathered_bytes() const;
  int64_t gradient_bytes() const;
  int64_t shard_bytes() const;
  int64_t shard_gradient_bytes() const;
  bool trains() const;

  // --- parameters: not there, under way, there
  void start_gather(const torch::Tensor& buffer, Communicator& shards);
  double finish_gather();   // seconds waited
  torch::Tensor release();  // the buffer
  bool gathering() const { return buffer_.defined(); }
  bool gathered() const { return bound_; }

  // --- gradients: added to in a buffer, then reduced to the shard's
  void bind_gradients(const torch::Tensor& buffer);
  bool collects_gradients() const { return gradient_buffer_.defined(); }
  // From here on the buffer is the reduction's.
  void start_reduction(Communicator& shards);
  // Adds to what was reduced before in this step; returns the buffer.
  torch::Tensor finish_reduction(double& waited_s);
  void start_replica_sums(Communicator& replicas, std::vector<PendingCollective>& pending);
  // Shards on the host: what was reduced sets out to there, and the device keeps it until
  // finish_departure(). Nothing where it has set out already.
  void start_departure();
  void finish_departure();
  // What was reduced becomes the gradients of the owned tensors.
  void finish_gradients();
  void drop_gradients();

  void append_owned(std::vector<OwnedTensor>& owned) const;
  void append_inventory(std::vector<ParameterInfo>& inventory) const;
  // Their parts in the order in which append_owned() appends them, not numbered.
  void append_flat_arrays(std::vector<FlatArray>& arrays) const;

  // Gathers what the shards hold, in their dtype, beside any buffer.
  void visit_whole(Communicator& shards, const ParallelParameters::Visit& visit,
                   ParallelParameters::Visited visited) const;
  // True if the unit has a parameter of that name.
  bool put_whole(const std::string& name, const torch::Tensor& values);

 private:
  struct Segment {
    FlatLayout layout;
    torch::Dtype dtype;          // of the shard
    torch::Dtype compute_dtype;  // of the gathered parameters and their gradients
    torch::Dtype reduce_dtype;
    bool trains;
    std::vector<torch::Tensor*> tensors = {};
    int64_t parameter_begin = 0, gradient_begin = 0;  // in the buffers, bytes

    torch::Tensor shard = {};     // [shard elements], dtype
    torch::Tensor reduced = {};   // the same, reduce dtype: sums of this step so far
    torch::Tensor gradient = {};  // the same, dtype: what owned tensors' gradients point into
    torch::Tensor incoming = {}, staged = {};  // of the reduction under way
    ops::CopyStream::Copies departure = {};    // of `reduced`, to `gradient`
    PendingCollective pending_gather = {}, pending_reduction = {};
    std::vector<OwnedTensor> owned = {};
  };

  void add_segments(const ParameterUnit& unit, const ShardingOptions& options, int64_t shards);
  std::vector<ElementRange> kept(const ParameterUnit& unit) const;
  void take_shards();
  static torch::Tensor view(const torch::Tensor& buffer, int64_t begin_bytes, int64_t elements,
                            torch::Dtype dtype);

  std::string name_;
  std::vector<Segment> segments_;
  int64_t rank_;
  torch::Device device_;
  ops::CopyStream* copies_;  // null: shards are on the device
  torch::Tensor buffer_, gradient_buffer_;
  bool bound_ = false;
};

}  // namespace sftbench
