// Tuning methods: which tensors of a model train, and (for adapters) how its linears are wrapped. A
// method is one file in src/tuning/ and one row in the table of tuning.cpp; names are those of
// TrainingJob::tuning.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sftbench/model/causal_lm.h"

namespace sftbench {

class Tuning {
 public:
  virtual ~Tuning() = default;

  // Prepares the model for training and returns what trains, requires_grad set on exactly those.
  virtual std::vector<NamedParameter> apply(CausalLm& model) const = 0;
};

// "full". RunError(kUnsupported) naming the method, what there is and the nearest spelling.
std::unique_ptr<Tuning> make_tuning(const std::string& name);

}  // namespace sftbench
