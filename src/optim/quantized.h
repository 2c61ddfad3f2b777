// Optimizers that keep their states in 8 or 4 bits, or in host memory ("paged"), or both: an
// element-wise rule (ops/update_rule.h) with the choice, per tensor, of how its states are stored.
// Source: bitsandbytes optim/optimizer.py, torchao optim/adam.py.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "optim/elementwise.h"
#include "sftbench/ops/blockwise_update.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {

struct QuantizedKind {
  const char* name;
  ops::UpdateRule rule;
  std::optional<ops::StateBits> bits;  // of the states of large tensors; none: all stay wide
  std::function<ops::RuleFactors<double>(const StepInfo&)> factors;
  // bitsandbytes: embeddings and tensors below 4096 elements keep float32 states. torchao: tensors
  // below 4096 elements or of broken blocks keep states in the parameter's dtype.
  StateDtype wide_dtype = StateDtype::kFloat32;
  bool embeddings_stay_wide = true;
  bool whole_blocks_only = false;
  // On GPUs, states of tensors of at least 100,000 elements live in pinned host memory
  // (quantized_paging.h). On CPUs there is nothing to page to.
  bool paged = false;
};

// RunError(kUnsupported) naming the tensor when its dtype is not float32, bfloat16 or float16.
void require_quantizable(const char* optim, const TrainableTensor& trainable);

// The same for each of the tensors.
std::unique_ptr<Optimizer> make_quantized(std::vector<ParameterGroup> groups, QuantizedKind kind);

}  // namespace sftbench
