// Collectives over NCCL. Operations run on one communication stream, beside the caller's: each
// begins when what the caller's stream held at its start is done, and wait() makes the caller's
// stream, not the host, wait for its end. Nothing here blocks the host but barrier().
//
// A PendingCollective keeps its tensors until it has been waited for, so that their memory cannot
// be handed out again before the stream that frees it is behind the operation; the caching
// allocator's own way (recordStream) would tie memory to the time at which the GPU gets there.
//
// Sums are NCCL's: SUM, never AVG, whose factor is rounded to the dtype. It adds bfloat16 in
// bfloat16 at every hop, in an order that depends on the algorithm. With a float32 output, a
// reduce-scatter's input is converted first, into memory that the communicator keeps.
//
// Ranks must start the operations of all their communicators in the same order on the host, too.
// An operation that fails or runs into the deadline (operation_watch.h) ends the communicator.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "parallel/nccl_backend.h"
#include "parallel/operation_watch.h"

namespace sftbench {

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(RankGroup& group, const std::string& name, std::shared_ptr<NcclBackend> backend);

  int64_t rank() const override { return shared_->backend->rank(); }
  int64_t world_size() const override { return shared_->backend->world_size(); }

  PendingCollective all_reduce(const torch::Tensor& tensor, Reduction reduction) override;
  PendingCollective all_gather(const torch::Tensor& output, const torch::Tensor& input) override;
  PendingCollective reduce_scatter(const torch::Tensor& output,
                                   const torch::Tensor& input) override;
  PendingCollective broadcast(const torch::Tensor& tensor, int64_t root) override;
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input) override;
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts) override;
  void barrier() override;
  void abort(const std::string& why) override;
  CommunicationCounters counters() const override { return shared_->watch.counters(); }
  double take_wait_seconds() override { return shared_->watch.take_wait_seconds(); }
  void on_end(std::function<void(const CollectiveSpan&)> listener) override {
    shared_->watch.on_end(std::move(listener));
  }

 private:
  // What operations that are waited for still need. Members end in reverse order: the watch first.
  struct Shared {
    Shared(RankGroup& group, const std::string& group_name, std::shared_ptr<NcclBackend> of);
    ~Shared();
    const std::string name;
    std::shared_ptr<NcclBackend> backend;
    std::mutex calling;  // NCCL must not be aborted while a thread is inside of it
    OperationWatch watch;
  };
  struct Operation;

  PendingCollective start(const CollectiveCall& call, int64_t from_root,
                          std::vector<torch::Tensor> tensors,
                          const std::function<void(NcclBackend&)>& put);

  std::shared_ptr<Shared> shared_;
  torch::Tensor in_float32_;  // of reduce-scatters, flat
};

}  // namespace sftbench
