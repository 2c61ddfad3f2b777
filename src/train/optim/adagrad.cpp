// torch.optim.Adagrad (Duchi et al. 2011) with torch's defaults, whatever adam_epsilon is: epsilon
// 1e-10, no decay of the rate. The sum of squares is RMSprop's mean with nothing forgotten.
#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {

std::unique_ptr<Optimizer> make_adagrad(std::vector<ParameterGroup> groups,
                                        const OptimizerOptions&) {
  return make_elementwise(std::move(groups), {ops::UpdateRule::kRmsprop, StateDtype::kAsParameter,
                                              [](const StepInfo& info) {
                                                ops::RuleFactors<double> factors;
                                                factors.l2 = info.weight_decay;
                                                factors.step_size = info.learning_rate;
                                                factors.beta2 = 1.0;
                                                factors.one_minus_beta2 = 1.0;
                                                factors.epsilon = 1e-10;
                                                return factors;
                                              }});
}

}  // namespace sftbench
