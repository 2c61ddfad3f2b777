// What the families that descend from Llama share with it.
#pragma once

#include "families/config_fields.h"
#include "families/rows.h"

namespace sftbench {

// Names of tensors in the checkpoints of Llama and its descendants.
inline constexpr ModelNames kLlamaNames = {"model.embed_tokens", "model.layers.", "model.norm",
                                           "lm_head"};

// LlamaConfig.
void read_llama(ConfigFields& fields, ModelConfig& config);
ModelShape llama_shape(const ModelConfig& config);

}  // namespace sftbench
