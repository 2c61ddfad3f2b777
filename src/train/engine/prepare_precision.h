// What a PrecisionPlan means: the dtype of the parameters, the dtype that matrix products run in,
// and whether the loss is scaled.
#pragma once

#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/model/causal_lm.h"
#include "sftbench/optim/gradient_scaling.h"
#include "sftbench/parallel/parallel_parameters.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// RunError(kUnsupported): float8 where the device has none.
void require_precision(const PrecisionPlan& plan, const torch::Device& device);

torch::Dtype parameter_dtype(const PrecisionPlan& plan);

// What products run in when it differs from the parameters' dtype.
std::optional<torch::Dtype> autocast_dtype(Autocast autocast);

// The dtype in which shards are gathered, where it is not their own. Under fp8 it is bfloat16: the
// scale of a product is that of the whole weight, so every rank needs the whole weight.
std::optional<torch::Dtype> gathered_dtype(const CausalLm& model, const PrecisionPlan& plan,
                                           const torch::Device& device);

// Makes the model compute as planned. Returns what its matrix products really run in on `device`,
// for TrainBegin::compute_dtype. RunError(kUnsupported) naming a linear that cannot.
std::string apply_precision(CausalLm& model, const PrecisionPlan& plan,
                            const torch::Device& device);

// Scales dynamically under float16 autocast. RunError(kUnsupported) if a tensor that the optimizer
// updates is itself float16 then: torch's scaler refuses to unscale such gradients, since what
// underflowed is lost. (Shards of float32 parameters that are gathered in float16 are float32.)
std::unique_ptr<LossScaler> choose_loss_scaler(const PrecisionPlan& plan,
                                               const std::vector<OwnedTensor>& trained);

}  // namespace sftbench
