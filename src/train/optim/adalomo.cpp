// AdaLomo (Lv et al. 2023, package lomo-optim): Adafactor inside the backward pass, at a rate that
// follows the size of each parameter. Trainer makes it from the model and the rate alone: no weight
// decay, no clipping by the global norm.
#include <cmath>

#include "optim/kinds.h"
#include "optim/state_tensors.h"
#include "optim/update_in_backward.h"
#include "sftbench/ops/adafactor.h"

namespace sftbench {
namespace {

class AdaLomo : public ParameterUpdate {
 public:
  explicit AdaLomo(const torch::Tensor& parameter)
      : parameter_(parameter), squares_(ops::make_factored_squares(parameter)) {}

  void update(const torch::Tensor& gradient, double learning_rate, double gradient_scale) override {
    ++step_;
    ops::adafactor_step(parameter_, gradient, squares_,
                        {.learning_rate = learning_rate,
                         .beta2 = 1.0 - std::pow(static_cast<double>(step_), -0.8),
                         .gradient_scale = gradient_scale,
                         .least_parameter_rms = 1e-3});
  }

  int64_t state_bytes() const override { return bytes_of(squares_); }

  void visit_state(OptimizerStateVisitor& visitor) override {
    visitor.number("step", step_);
    visit_squares(visitor, squares_);
  }

 private:
  torch::Tensor parameter_;
  ops::FactoredSquares squares_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adalomo(std::vector<ParameterGroup> groups,
                                        const OptimizerOptions&) {
  std::vector<UpdatedParameter> updated;
  for (ParameterGroup& group : groups) {
    for (TrainableTensor& trainable : group.parameters) {
      auto update = std::make_unique<AdaLomo>(trainable.tensor);
      updated.push_back({std::move(trainable), std::move(update)});
    }
  }
  return update_in_backward(std::move(updated));
}

}  // namespace sftbench
