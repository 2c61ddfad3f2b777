#include <torch/torch.h>

#include "sftbench/base/error.h"
#include "sftbench/parallel/communicator.h"

namespace sftbench {
namespace {

class LocalCommunicator : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world_size() const override { return 1; }
  void all_reduce(torch::Tensor&) override {}
  void all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    output.copy_(input);
  }
  void reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    output.copy_(input);
  }
  void broadcast(torch::Tensor&, int64_t root) override { check(root == 0, "root is a rank"); }
  void barrier() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace sftbench
