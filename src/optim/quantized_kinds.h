// The kinds with quantized, paged or low-rank states; the table of optimizer.cpp gives them their
// names.
#pragma once

#include "optim/kinds.h"

namespace sftbench {

// quantized_kinds.cpp: bitsandbytes' kinds, and torchao's with 4 bits
OptimizerFactory make_adamw_8bit;
OptimizerFactory make_ademamix_8bit;
OptimizerFactory make_lion_8bit;
OptimizerFactory make_rmsprop_8bit;
OptimizerFactory make_paged_adamw_32bit;
OptimizerFactory make_paged_adamw_8bit;
OptimizerFactory make_paged_ademamix_32bit;
OptimizerFactory make_paged_ademamix_8bit;
OptimizerFactory make_paged_lion_32bit;
OptimizerFactory make_paged_lion_8bit;
OptimizerFactory make_adamw_4bit;

// galore.cpp
OptimizerFactory make_galore_adamw;
OptimizerFactory make_galore_adamw_8bit;
OptimizerFactory make_galore_adafactor;
OptimizerFactory make_galore_adamw_layerwise;
OptimizerFactory make_galore_adamw_8bit_layerwise;
OptimizerFactory make_galore_adafactor_layerwise;

}  // namespace sftbench
