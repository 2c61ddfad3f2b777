#include <torch/torch.h>

#include "parallel/forward_order.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {
namespace {

class KeptParameters : public ParallelParameters {
 public:
  explicit KeptParameters(const std::vector<ParameterUnit>& units) : units_(units) {
    for (const UnitTensor& named : in_forward_order(units)) {
      memory_.parameters += static_cast<int64_t>(named.tensor->nbytes());
      if (!named.tensor->requires_grad()) continue;
      memory_.gradients += static_cast<int64_t>(named.tensor->nbytes());
      owned_.push_back({named.name, *named.tensor});
    }
  }

  const std::vector<OwnedTensor>& owned() const override { return owned_; }
  bool whole() const override { return true; }
  void begin_micro_batch(bool, bool) override {}
  void before_forward(int64_t) override {}
  void after_forward(int64_t) override {}
  void begin_backward() override {}
  void expect_backward(int64_t, bool) override {}
  void before_backward(int64_t) override {}
  void end_backward() override {}

  // The memory is free for the next forward pass, and its first backward writes instead of adding.
  void drop_gradients() override {
    for (OwnedTensor& owned : owned_) owned.tensor.mutable_grad().reset();
  }

  double global_norm(double owned_norm) override { return owned_norm; }
  void visit_whole(const Visit& visit) override {
    for (const ParameterUnit& unit : units_) {
      for (const UnitTensor& named : unit.tensors) visit(named.name, *named.tensor);
    }
  }
  void put_whole(const std::string& name, const torch::Tensor& values) override {
    const torch::NoGradGuard no_grad;
    for (const ParameterUnit& unit : units_) {
      for (const UnitTensor& named : unit.tensors) {
        if (named.name == name) named.tensor->copy_(values);
      }
    }
  }
  ParallelMemory memory() const override { return memory_; }
  double take_wait_seconds() override { return 0; }

 private:
  std::vector<ParameterUnit> units_;
  std::vector<OwnedTensor> owned_;
  ParallelMemory memory_;
};

}  // namespace

std::unique_ptr<ParallelParameters> keep_parameters(const std::vector<ParameterUnit>& units) {
  return std::make_unique<KeptParameters>(units);
}

}  // namespace sftbench
