// Lion of bitsandbytes (32 bits). Trainer gives it the betas of Adam, 0.9 and 0.999, in place of
// its own 0.9 and 0.99; weight decay is decoupled.
#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {

std::unique_ptr<Optimizer> make_lion(std::vector<ParameterGroup> groups,
                                     const OptimizerOptions& options) {
  return make_elementwise(
      std::move(groups),
      {ops::UpdateRule::kLion, StateDtype::kFloat32, [betas = options.betas](const StepInfo& info) {
         ops::RuleFactors<double> factors;
         factors.decay = 1.0 - info.learning_rate * info.weight_decay;
         factors.step_size = info.learning_rate;
         factors.beta1 = betas[0];
         factors.one_minus_beta1 = 1.0 - betas[0];
         factors.beta2 = betas[1];
         factors.one_minus_beta2 = 1.0 - betas[1];
         return factors;
       }});
}

}  // namespace sftbench
