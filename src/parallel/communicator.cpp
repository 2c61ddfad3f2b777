#include "sftbench/parallel/communicator.h"

#include <torch/torch.h>

#include <atomic>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

class LocalCommunicator : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world_size() const override { return 1; }

  PendingCollective all_reduce(const torch::Tensor&, Reduction) override {
    return count(Collective::kAllReduce);
  }
  PendingCollective all_gather(const torch::Tensor& output, const torch::Tensor& input) override {
    copy(output, input);
    return count(Collective::kAllGather);
  }
  PendingCollective reduce_scatter(const torch::Tensor& output,
                                   const torch::Tensor& input) override {
    copy(output, input);
    return count(Collective::kReduceScatter);
  }
  PendingCollective broadcast(const torch::Tensor&, int64_t root) override {
    check(root == 0, "root is a rank");
    return count(Collective::kBroadcast);
  }
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input) override {
    copy(output, input);
    return count(Collective::kAllToAll);
  }
  void barrier() override { count(Collective::kBarrier); }
  void abort(const std::string&) override {}

  CommunicationCounters counters() const override {
    CommunicationCounters counters{};
    for (size_t i = 0; i < kCollectives; ++i) counters[i].calls = calls_[i];
    return counters;
  }

 private:
  PendingCollective count(Collective collective) {
    ++calls_[static_cast<size_t>(collective)];
    return {};
  }

  static void copy(const torch::Tensor& output, const torch::Tensor& input) {
    check(output.numel() == input.numel(), "in a group of one, output and input are as large");
    if (output.data_ptr() == input.data_ptr()) return;
    output.view(-1).copy_(input.view(-1));
  }

  std::array<std::atomic<int64_t>, kCollectives> calls_{};
};

}  // namespace

std::string to_string(Collective collective) {
  constexpr std::array<const char*, kCollectives> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier"};
  return kNames[static_cast<size_t>(collective)];
}

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
