// AdEMAMix of bitsandbytes (32 bits) as Trainer makes it: the slow mean has beta 0.9999 and weight
// 5 from the first step on (no schedules for them), and no bias correction.
#include <cmath>

#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {

std::unique_ptr<Optimizer> make_ademamix(std::vector<ParameterGroup> groups,
                                         const OptimizerOptions& options) {
  return make_elementwise(
      std::move(groups),
      {ops::UpdateRule::kAdemamix, StateDtype::kFloat32, [options](const StepInfo& info) {
         constexpr double kSlowBeta = 0.9999, kSlowWeight = 5.0;
         const auto [beta1, beta2] = options.betas;
         const auto t = static_cast<double>(info.step);
         ops::RuleFactors<double> factors;
         factors.decay = 1.0 - info.learning_rate * info.weight_decay;
         factors.step_size = info.learning_rate;
         factors.beta1 = beta1;
         factors.one_minus_beta1 = 1.0 - beta1;
         factors.beta2 = beta2;
         factors.one_minus_beta2 = 1.0 - beta2;
         factors.beta3 = kSlowBeta;
         factors.one_minus_beta3 = 1.0 - kSlowBeta;
         factors.mean_factor = 1.0 / (1.0 - std::pow(beta1, t));
         factors.root_factor = 1.0 / std::sqrt(1.0 - std::pow(beta2, t));
         factors.epsilon = options.epsilon;
         factors.alpha = kSlowWeight;
         return factors;
       }});
}

}  // namespace sftbench
