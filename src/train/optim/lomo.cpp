// LOMO (Lv et al. 2023, package lomo-optim): SGD inside the backward pass. Trainer makes it from
// the model and the rate alone: no weight decay, no clipping.
#include "optim/kinds.h"
#include "optim/update_in_backward.h"
#include "sftbench/ops/update.h"

namespace sftbench {
namespace {

class Lomo : public ParameterUpdate {
 public:
  explicit Lomo(torch::Tensor parameter) : parameter_(std::move(parameter)) {}

  void update(const torch::Tensor& gradient, double learning_rate, double gradient_scale) override {
    ops::RuleFactors<double> factors;
    factors.gradient_scale = gradient_scale;
    factors.step_size = learning_rate;
    ops::update(ops::UpdateRule::kSgd, {{parameter_, gradient, {}}}, factors);
  }

  int64_t state_bytes() const override { return 0; }
  void visit_state(OptimizerStateVisitor&) override {}

 private:
  torch::Tensor parameter_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lomo(std::vector<ParameterGroup> groups, const OptimizerOptions&) {
  std::vector<UpdatedParameter> updated;
  for (ParameterGroup& group : groups) {
    for (TrainableTensor& trainable : group.parameters) {
      auto update = std::make_unique<Lomo>(trainable.tensor);
      updated.push_back({std::move(trainable), std::move(update)});
    }
  }
  return update_in_backward(std::move(updated));
}

}  // namespace sftbench
