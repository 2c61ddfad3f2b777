// What makes each kind of optimizer; optimizer.cpp gives them their names.
#pragma once

#include <memory>
#include <vector>

#include "sftbench/optim/optimizer.h"

namespace sftbench {

using OptimizerFactory = std::unique_ptr<Optimizer>(std::vector<ParameterGroup> groups,
                                                    const OptimizerOptions& options);

// adamw.cpp
OptimizerFactory make_adamw;          // states in the parameter's dtype
OptimizerFactory make_adamw_hf;       // epsilon beside the uncorrected root
OptimizerFactory make_adamw_float32;  // states in float32
// one file each
OptimizerFactory make_adafactor;
OptimizerFactory make_adagrad;
OptimizerFactory make_ademamix;
OptimizerFactory make_adalomo;
OptimizerFactory make_grokadamw;
OptimizerFactory make_lion;
OptimizerFactory make_lomo;
OptimizerFactory make_rmsprop;          // state in the parameter's dtype
OptimizerFactory make_rmsprop_float32;  // state in float32
OptimizerFactory make_schedule_free_adamw;
OptimizerFactory make_schedule_free_sgd;
OptimizerFactory make_sgd;

}  // namespace sftbench
