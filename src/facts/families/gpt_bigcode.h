// What GPTBigCode and GPT-2 have in common: learned positions, LayerNorm, and one linear for
// queries, keys and values.
#pragma once

#include "sftbench/families/family.h"

namespace sftbench {

// All but the form of the fused linear, and the activation, whose defaults differ.
void read_learned_positions(ConfigFields& fields, ModelConfig& config);
ModelShape learned_positions_shape(const ModelConfig& config);

}  // namespace sftbench
