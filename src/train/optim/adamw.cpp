// AdamW (Loshchilov and Hutter 2019) as torch, apex, torchdistx and transformers compute it. All of
// them do the arithmetic in float32 here and round once, as torch's fused kernel does.
#include <cmath>

#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {
namespace {

// torch.optim.AdamW. apex.optimizers.FusedAdam and torchdistx's AnyPrecisionAdamW (without Kahan
// summation) are the same function.
ops::RuleFactors<double> torch_factors(const OptimizerOptions& options, const StepInfo& info) {
  const auto [beta1, beta2] = options.betas;
  const auto t = static_cast<double>(info.step);
  ops::RuleFactors<double> factors;
  factors.decay = 1.0 - info.learning_rate * info.weight_decay;
  factors.step_size = info.learning_rate / (1.0 - std::pow(beta1, t));
  factors.beta1 = beta1;
  factors.one_minus_beta1 = 1.0 - beta1;
  factors.beta2 = beta2;
  factors.one_minus_beta2 = 1.0 - beta2;
  factors.root_factor = 1.0 / std::sqrt(1.0 - std::pow(beta2, t));
  factors.epsilon = options.epsilon;
  return factors;
}

// The AdamW that transformers had until 4.49: epsilon is added before the bias correction, so that
// it weighs 31.6 times as much in the first step, and the decay comes after the update.
ops::RuleFactors<double> hugging_face_factors(const OptimizerOptions& options,
                                              const StepInfo& info) {
  ops::RuleFactors<double> factors = torch_factors(options, info);
  factors.step_size *= factors.decay / factors.root_factor;
  factors.root_factor = 1.0;
  return factors;
}

template <class Factors>
std::unique_ptr<Optimizer> adamw(std::vector<ParameterGroup> groups, StateDtype dtype,
                                 const OptimizerOptions& options, Factors factors) {
  return make_elementwise(
      std::move(groups), {ops::UpdateRule::kAdamW, dtype, [options, factors](const StepInfo& info) {
                            return factors(options, info);
                          }});
}

}  // namespace

std::unique_ptr<Optimizer> make_adamw(std::vector<ParameterGroup> groups,
                                      const OptimizerOptions& options) {
  return adamw(std::move(groups), StateDtype::kAsParameter, options, torch_factors);
}

std::unique_ptr<Optimizer> make_adamw_hf(std::vector<ParameterGroup> groups,
                                         const OptimizerOptions& options) {
  return adamw(std::move(groups), StateDtype::kAsParameter, options, hugging_face_factors);
}

std::unique_ptr<Optimizer> make_adamw_float32(std::vector<ParameterGroup> groups,
                                              const OptimizerOptions& options) {
  return adamw(std::move(groups), StateDtype::kFloat32, options, torch_factors);
}

}  // namespace sftbench
