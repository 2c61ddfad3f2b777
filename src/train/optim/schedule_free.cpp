// Schedule-free AdamW and SGD (Defazio et al. 2024) of the package schedulefree, in its training
// mode: the parameter is y, at which gradients are taken, z is the state, and the average x is
// implied.
//
// Trainer hands over warmup_steps, which is 0 when a warm-up ratio is configured (as here), and
// lets its own schedule of the learning rate run on top; so does the engine.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "optim/elementwise.h"
#include "optim/kinds.h"

namespace sftbench {
namespace {

// The share of z in the average: the weight of this step, the square of the largest rate so far, in
// the sum of all weights.
class Average {
 public:
  double mix_at(const StepInfo& info) {
    if (info.step == step_) return mix_;  // another group of the same step
    step_ = info.step;
    largest_rate_ = std::max(largest_rate_, info.learning_rate);
    const double weight = largest_rate_ * largest_rate_;
    sum_of_weights_ += weight;
    mix_ = sum_of_weights_ > 0 ? weight / sum_of_weights_ : 0.0;
    return mix_;
  }

  void visit(OptimizerStateVisitor& visitor) {
    visitor.number("lr_max", largest_rate_);
    visitor.number("weight_sum", sum_of_weights_);
  }

 private:
  int64_t step_ = 0;
  double largest_rate_ = 0, sum_of_weights_ = 0, mix_ = 0;
};

// Its sums go on where a resumed run left them.
std::function<void(OptimizerStateVisitor&)> visit_sums(const std::shared_ptr<Average>& average) {
  return [average](OptimizerStateVisitor& visitor) { average->visit(visitor); };
}

ops::RuleFactors<double> schedule_free_factors(Average& average, double beta,
                                               const StepInfo& info) {
  ops::RuleFactors<double> factors;
  factors.l2 = info.weight_decay;
  factors.step_size = info.learning_rate;
  factors.mix = average.mix_at(info);
  factors.mixed_step = info.learning_rate * (beta * (1.0 - factors.mix) - 1.0);
  return factors;
}

}  // namespace

std::unique_ptr<Optimizer> make_schedule_free_adamw(std::vector<ParameterGroup> groups,
                                                    const OptimizerOptions& options) {
  const auto average = std::make_shared<Average>();
  const auto factors = [average, options](const StepInfo& info) {
    const auto [beta1, beta2] = options.betas;
    ops::RuleFactors<double> result = schedule_free_factors(*average, beta1, info);
    result.beta2 = beta2;
    result.one_minus_beta2 = 1.0 - beta2;
    result.root_factor = 1.0 / std::sqrt(1.0 - std::pow(beta2, static_cast<double>(info.step)));
    result.epsilon = options.epsilon;
    return result;
  };
  return make_elementwise(std::move(groups),
                          {ops::UpdateRule::kScheduleFreeAdamW, StateDtype::kAsParameter, factors,
                           true, visit_sums(average)});
}

std::unique_ptr<Optimizer> make_schedule_free_sgd(std::vector<ParameterGroup> groups,
                                                  const OptimizerOptions&) {
  const auto average = std::make_shared<Average>();
  const auto factors = [average](const StepInfo& info) {
    constexpr double kMomentum = 0.9;
    return schedule_free_factors(*average, kMomentum, info);
  };
  return make_elementwise(std::move(groups),
                          {ops::UpdateRule::kScheduleFreeSgd, StateDtype::kAsParameter, factors,
                           true, visit_sums(average)});
}

}  // namespace sftbench
