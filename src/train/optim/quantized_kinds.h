// The kinds with quantized, paged or low-rank states; optimizer.cpp gives them their names.
#pragma once

#include "optim/kinds.h"

namespace sftbench {

// quantized_kinds.cpp: bitsandbytes' kinds, and torchao's with 4 bits. REQUIRES: the kind is one of
// them.
std::unique_ptr<Optimizer> make_quantized(OptimizerKind kind, std::vector<ParameterGroup> groups,
                                          const OptimizerOptions& options,
                                          int64_t paged_at_once = kPagedElementsAtOnce);

// galore.cpp
OptimizerFactory make_galore_adamw;
OptimizerFactory make_galore_adamw_8bit;
OptimizerFactory make_galore_adafactor;
OptimizerFactory make_galore_adamw_layerwise;
OptimizerFactory make_galore_adamw_8bit_layerwise;
OptimizerFactory make_galore_adafactor_layerwise;

}  // namespace sftbench
