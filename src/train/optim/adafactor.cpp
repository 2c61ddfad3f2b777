// transformers.Adafactor as Trainer makes it: the rate is the configured one (neither relative nor
// scaled by the parameter), no first moment.
#include <cmath>

#include "optim/kinds.h"
#include "optim/state_tensors.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/adafactor.h"

namespace sftbench {
namespace {

class Adafactor : public Optimizer {
 public:
  explicit Adafactor(const std::vector<ParameterGroup>& groups) {
    for (const ParameterGroup& group : groups) {
      for (const TrainableTensor& trainable : group.parameters) {
        states_.push_back({trainable.name, trainable.tensor,
                           ops::make_factored_squares(trainable.tensor), group.weight_decay});
      }
    }
  }

  void step(double learning_rate, double gradient_scale) override {
    ++step_;
    const double beta2 = 1.0 - std::pow(static_cast<double>(step_), -0.8);
    for (State& state : states_) {
      if (!state.parameter.grad().defined()) continue;
      ops::adafactor_step(state.parameter, state.parameter.grad(), state.squares,
                          {.learning_rate = learning_rate,
                           .beta2 = beta2,
                           .weight_decay = state.weight_decay,
                           .gradient_scale = gradient_scale});
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const State& state : states_) bytes += bytes_of(state.squares);
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    visitor.number("step", step_);
    for (const State& state : states_) {
      visitor.parameter(state.name);
      visit_squares(visitor, state.squares);
    }
  }

 private:
  struct State {
    std::string name;
    torch::Tensor parameter;
    ops::FactoredSquares squares;
    double weight_decay;
  };

  std::vector<State> states_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(std::vector<ParameterGroup> groups,
                                          const OptimizerOptions&) {
  return std::make_unique<Adafactor>(groups);
}

}  // namespace sftbench
