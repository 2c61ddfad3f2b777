// Where a number that is not finite came from. Nothing of this runs while training goes well: the
// step loop asks once the loss or the gradient norm of a step turned out to be NaN or infinite.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/step_batches.h"
#include "engine/training_run.h"
#include "sftbench/base/error.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

struct NonFiniteOrigin {
  std::string where;          // the module, as Hugging Face names it: model.layers.3.mlp.down_proj
  std::string why;            // its parameter that is not finite, or that it overflowed
  bool of_parameter = false;  // a parameter is to blame
};

// The first module of the forward pass, in the order in which it runs, whose result is not finite
// though what it read was. Runs the forward pass again, checking what goes into and comes out of
// each linear, adapter, norm and layer; `where` is empty if all of it is finite.
NonFiniteOrigin find_nonfinite(CausalLm& model, const TokenRows& rows, const torch::Tensor& labels,
                               double denominator);

// The error for a step whose loss is `loss`, summed over all ranks: step, rank, and the first
// module of this rank's micro-batches; where parameters are sharded, the first of its shards that
// is not finite instead, since no rank has a model to look through. `own_loss` is this rank's part.
// REQUIRES: no parameter was written since the forward pass. kWeights if a parameter came in like
// that from the model's files, else kInternal.
RunError nonfinite_loss(TrainingRun& run, const StepBatches& batches, double loss, double own_loss,
                        int64_t step);

// The error for a step whose loss is finite and whose gradient norm is `norm`: step, rank, and the
// first parameter, in the order of the backward pass, whose gradient is not finite.
RunError nonfinite_gradient(const TrainingRun& run, double norm, int64_t step);

}  // namespace sftbench
