// RMSprop of torch and of bitsandbytes (32 bits): the same rule with the same defaults, whatever
// the adam_* arguments are; no momentum, not centered.
#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {
namespace {

std::unique_ptr<Optimizer> rmsprop(std::vector<ParameterGroup> groups, StateDtype dtype) {
  return make_elementwise(std::move(groups),
                          {ops::UpdateRule::kRmsprop, dtype, [](const StepInfo& info) {
                             constexpr double kAlpha = 0.99;
                             ops::RuleFactors<double> factors;
                             factors.l2 = info.weight_decay;
                             factors.step_size = info.learning_rate;
                             factors.beta2 = kAlpha;
                             factors.one_minus_beta2 = 1.0 - kAlpha;
                             factors.epsilon = 1e-8;
                             return factors;
                           }});
}

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(std::vector<ParameterGroup> groups,
                                        const OptimizerOptions&) {
  return rmsprop(std::move(groups), StateDtype::kAsParameter);
}

std::unique_ptr<Optimizer> make_rmsprop_float32(std::vector<ParameterGroup> groups,
                                                const OptimizerOptions&) {
  return rmsprop(std::move(groups), StateDtype::kFloat32);
}

}  // namespace sftbench
