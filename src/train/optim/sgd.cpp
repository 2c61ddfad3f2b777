// torch.optim.SGD as Trainer makes it: no momentum, so no state; weight decay joins the gradient.
#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {

std::unique_ptr<Optimizer> make_sgd(std::vector<ParameterGroup> groups, const OptimizerOptions&) {
  return make_elementwise(std::move(groups), {ops::UpdateRule::kSgd, StateDtype::kAsParameter,
                                              [](const StepInfo& info) {
                                                ops::RuleFactors<double> factors;
                                                factors.l2 = info.weight_decay;
                                                factors.step_size = info.learning_rate;
                                                return factors;
                                              }});
}

}  // namespace sftbench
