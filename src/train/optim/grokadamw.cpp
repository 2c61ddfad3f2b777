// GrokAdamW of the package grokadamw as Trainer makes it: AdamW on gradients whose slow mean is
// amplified. Each tensor is clipped by its own norm, and beta1 falls by a tenth from each parameter
// of a group to the next. Betas and epsilon are the package's own, not adam_*. No grokking signal
// is ever given by Trainer, so the slow mean's beta stays at its start.
//
// As in the package the states live in host memory and visit the device for the update.
#include <algorithm>
#include <cmath>

#include "optim/elementwise.h"
#include "optim/kinds.h"
#include "optim/state_tensors.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/global_norm.h"
#include "sftbench/ops/update.h"

namespace sftbench {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr double kSlowBeta = 0.98, kAmplification = 2.0, kLayerDecay = 0.1, kMaxNorm = 1.0;

class GrokAdamW : public Optimizer {
 public:
  explicit GrokAdamW(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
    for (const ParameterGroup& group : groups_) {
      auto& states = states_.emplace_back();
      for (const TrainableTensor& trainable : group.parameters) {
        const torch::Tensor& p = trainable.tensor;
        const auto host = torch::TensorOptions().dtype(p.scalar_type()).pinned_memory(p.is_cuda());
        states.emplace_back();
        for (int i = 0; i < 3; ++i) states.back().push_back(torch::zeros(p.sizes(), host));
      }
    }
  }

  void step(double learning_rate, double gradient_scale) override {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (size_t g = 0; g < groups_.size(); ++g) {
      ops::RuleFactors<double> factors = common_factors(learning_rate, groups_[g].weight_decay);
      int64_t index = 0;  // among the parameters that have a gradient
      for (size_t i = 0; i < groups_[g].parameters.size(); ++i) {
        const torch::Tensor& parameter = groups_[g].parameters[i].tensor;
        if (!parameter.grad().defined()) continue;
        factors.beta1 = kBeta1 * std::pow(1.0 - kLayerDecay, index++);
        factors.one_minus_beta1 = 1.0 - factors.beta1;
        const double norm = ops::global_norm({parameter.grad()}) * gradient_scale;
        factors.gradient_scale = gradient_scale * std::min(1.0, kMaxNorm / (norm + 1e-6));
        update(parameter, states_[g][i], factors);
      }
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const auto& group : states_) {
      for (const std::vector<torch::Tensor>& states : group) bytes += bytes_of(states);
    }
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    visitor.number("step", step_);
    const std::vector<const char*>& names = state_names(ops::UpdateRule::kGrokAdamW);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (size_t i = 0; i < states_[g].size(); ++i) {
        visitor.parameter(groups_[g].parameters[i].name);
        for (size_t k = 0; k < names.size(); ++k) visitor.values(names[k], states_[g][i][k]);
      }
    }
  }

 private:
  ops::RuleFactors<double> common_factors(double learning_rate, double weight_decay) const {
    const auto t = static_cast<double>(step_);
    ops::RuleFactors<double> factors;
    factors.decay = 1.0 - learning_rate * weight_decay;
    factors.step_size = learning_rate * std::sqrt(1.0 - std::pow(kBeta2, t)) /
                        (1.0 - std::pow(kBeta1, t));  // with the beta1 of no layer
    factors.beta2 = kBeta2;
    factors.one_minus_beta2 = 1.0 - kBeta2;
    factors.beta3 = kSlowBeta;
    factors.one_minus_beta3 = 1.0 - kSlowBeta;
    factors.alpha = kAmplification;
    factors.epsilon = kEpsilon;
    return factors;
  }

  static void update(const torch::Tensor& parameter, std::vector<torch::Tensor>& home,
                     const ops::RuleFactors<double>& factors) {
    std::vector<torch::Tensor> states;
    for (const torch::Tensor& state : home) {
      states.push_back(state.to(parameter.device(), /*non_blocking=*/true));
    }
    ops::update(ops::UpdateRule::kGrokAdamW, {{parameter, parameter.grad(), states}}, factors);
    if (parameter.device().is_cpu()) return;
    for (size_t i = 0; i < home.size(); ++i) home[i].copy_(states[i]);
  }

  std::vector<ParameterGroup> groups_;
  std::vector<std::vector<std::vector<torch::Tensor>>> states_;  // by group, parameter
  int64_t step_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> make_grokadamw(std::vector<ParameterGroup> groups,
                                          const OptimizerOptions&) {
  return std::make_unique<GrokAdamW>(std::move(groups));
}

}  // namespace sftbench
