#include "sftbench/parallel/communicator.h"

#include <mutex>

#include "parallel/collective_call.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

class LocalCommunicator : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world_size() const override { return 1; }

  PendingCollective all_reduce(const torch::Tensor& tensor, Reduction) override {
    return count(all_reduce_call(tensor));
  }
  PendingCollective all_gather(const torch::Tensor& output, const torch::Tensor& input) override {
    return copied(output, input, all_gather_call(output, input, 1));
  }
  PendingCollective reduce_scatter(const torch::Tensor& output,
                                   const torch::Tensor& input) override {
    return copied(output, input, reduce_scatter_call(output, input, 1));
  }
  PendingCollective broadcast(const torch::Tensor& tensor, int64_t root) override {
    return count(broadcast_call(tensor, root, 1));
  }
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input) override {
    return copied(output, input, all_to_all_call(output, input, 1));
  }
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts) override {
    return copied(output, input, all_to_all_call(output, input, output_parts, input_parts, 0, 1));
  }
  void barrier() override { count({.collective = Collective::kBarrier}); }

  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = "aborted: " + why;
  }

  CommunicationCounters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  PendingCollective count(const CollectiveCall& call) {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) throw RunError(ReasonCode::kNccl, aborted_);
    ++counters_[static_cast<size_t>(call.collective)].calls;
    return {};
  }

  PendingCollective copied(const torch::Tensor& output, const torch::Tensor& input,
                           const CollectiveCall& call) {
    PendingCollective pending = count(call);
    torch::NoGradGuard no_grad;
    if (output.data_ptr() != input.data_ptr()) output.view(-1).copy_(input.view(-1));
    return pending;
  }

  mutable std::mutex mutex_;  // guards the rest
  CommunicationCounters counters_{};
  std::string aborted_;
};

}  // namespace

void PendingCollective::wait() {
  if (const std::unique_ptr<Operation> operation = std::move(operation_)) operation->wait();
}

PendingCollective::~PendingCollective() {
  try {
    wait();
  } catch (const std::exception&) {
    // Whoever goes on learns it from the group's next operation.
  }
}

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace sftbench
