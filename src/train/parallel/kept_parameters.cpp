#include "parallel/whole_parameters.h"

namespace sftbench {
namespace {

class KeptParameters : public WholeParameters {
 public:
  explicit KeptParameters(const std::vector<ParameterUnit>& units) : WholeParameters(units) {
    for (const OwnedTensor& owned : owned_) {
      memory_.gradients += static_cast<int64_t>(owned.tensor.nbytes());
    }
  }

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

  double take_wait_seconds() override { return 0; }
};

}  // namespace

std::unique_ptr<ParallelParameters> keep_parameters(const std::vector<ParameterUnit>& units) {
  return std::make_unique<KeptParameters>(units);
}

}  // namespace sftbench
