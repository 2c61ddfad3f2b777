// Runs a model's layers as units of parallel parameters: gathers each around its computation, in
// the forward pass, when it is recomputed, and when its backward pass begins.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/activation_checkpoint.h"
#include "sftbench/measure/timeline.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

// The root unit, then one for each layer, of all parameters that the model has now: adapters belong
// to the layer that they adapt.
std::vector<ParameterUnit> parameter_units(CausalLm& model);

// `activations` run each layer inside; `recomputes` says that they run each but the last once more
// in the backward pass. `parameters` outlive the result, as does `timeline`, which may be null: it
// is told when which unit computed and what it waited for.
std::unique_ptr<ActivationPolicy> run_units(std::unique_ptr<ActivationPolicy> activations,
                                            bool recomputes, ParallelParameters& parameters,
                                            Timeline* timeline);

}  // namespace sftbench
