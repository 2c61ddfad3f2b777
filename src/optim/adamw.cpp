#include "optim/adamw.h"

#include <torch/torch.h>

#include <utility>

#include "optim/state_tensors.h"
#include "sftbench/ops/adamw.h"

namespace sftbench {
namespace {

// The moments are there before the first step, which is then the only one that meets fresh memory.
class AdamW : public Optimizer {
 public:
  AdamW(std::vector<ParameterGroup> groups, const OptimizerOptions& options) : options_(options) {
    for (ParameterGroup& group : groups) states_.emplace_back(std::move(group));
  }

  void step(double learning_rate, double gradient_scale) override {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (GroupState& state : states_) {
      std::vector<torch::Tensor> parameters, gradients, first, second;
      for (size_t i = 0; i < state.group.parameters.size(); ++i) {
        const torch::Tensor& parameter = state.group.parameters[i].tensor;
        if (!parameter.grad().defined()) continue;
        parameters.push_back(parameter);
        gradients.push_back(parameter.grad());
        first.push_back(state.first_moments[i]);
        second.push_back(state.second_moments[i]);
      }
      if (parameters.empty()) continue;
      ops::adamw_step(parameters, gradients, first, second,
                      {.learning_rate = learning_rate,
                       .beta1 = options_.betas[0],
                       .beta2 = options_.betas[1],
                       .epsilon = options_.epsilon,
                       .weight_decay = state.group.weight_decay,
                       .step = step_,
                       .gradient_scale = gradient_scale});
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const GroupState& state : states_) {
      bytes += bytes_of(state.first_moments) + bytes_of(state.second_moments);
    }
    return bytes;
  }

 private:
  struct GroupState {
    ParameterGroup group;
    std::vector<torch::Tensor> first_moments, second_moments;

    explicit GroupState(ParameterGroup the_group) : group(std::move(the_group)) {
      const torch::NoGradGuard no_grad;
      for (const TrainableTensor& parameter : group.parameters) {
        first_moments.push_back(torch::zeros_like(parameter.tensor));
        second_moments.push_back(torch::zeros_like(parameter.tensor));
      }
    }
  };

  OptimizerOptions options_;
  std::vector<GroupState> states_;
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::vector<ParameterGroup> groups,
                                      const OptimizerOptions& options) {
  return std::make_unique<AdamW>(std::move(groups), options);
}

}  // namespace sftbench
