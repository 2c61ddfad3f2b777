// Optimizers that are one element-wise rule (ops/update_rule.h): a file of such a kind says which
// rule, in which dtype its states are, and what the rule's factors are at a step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sftbench/ops/update.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {

struct StepInfo {
  int64_t step = 1;  // counted from 1
  double learning_rate = 0;
  double weight_decay = 0;
};

enum class StateDtype {
  kAsParameter,  // torch's optimizers
  kFloat32,      // bitsandbytes and apex, whatever the parameter is
};

struct ElementwiseKind {
  ops::UpdateRule rule;
  StateDtype state_dtype;
  // Called once per step and group; gradient_scale is filled in by the caller.
  std::function<ops::RuleFactors<double>(const StepInfo&)> factors;
  bool first_state_is_parameter = false;  // starts as a copy of the parameter instead of zeros
  // Numbers that `factors` keeps from step to step.
  std::function<void(OptimizerStateVisitor&)> visit_numbers = [](OptimizerStateVisitor&) {};
};

// Of the states of a rule, in their order.
const std::vector<const char*>& state_names(ops::UpdateRule rule);

// States are there before the first step, which is then the only one that meets fresh memory.
std::unique_ptr<Optimizer> make_elementwise(std::vector<ParameterGroup> groups,
                                            ElementwiseKind kind);

}  // namespace sftbench
