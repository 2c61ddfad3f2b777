// Optimizers that keep their states in 8 or 4 bits, or in host memory ("paged"), or both: an
// element-wise rule (ops/update_rule.h) with the choice, per tensor, of how its states are stored.
// Source: bitsandbytes optim/optimizer.py, torchao optim/adam.py.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "optim/elementwise.h"
#include "sftbench/ops/blockwise_update.h"
#include "sftbench/optim/optimizer.h"
#include "sftbench/variants/optimizer_state_size.h"

namespace sftbench {

struct QuantizedKind {
  OptimizerKind kind;  // its row has bits, what stays wide, and what is paged
  ops::UpdateRule rule;
  std::function<ops::RuleFactors<double>(const StepInfo&)> factors;
  int64_t paged_at_once = kPagedElementsAtOnce;  // elements: a multiple of kQuantBlockElements
};

// RunError(kUnsupported) naming the tensor when its dtype is not float32, bfloat16 or float16.
void require_quantizable(const char* optim, const TrainableTensor& trainable);

// The same for each of the tensors.
std::unique_ptr<Optimizer> make_quantized(std::vector<ParameterGroup> groups, QuantizedKind kind);

}  // namespace sftbench
