// What the families that descend from Llama share with it.
#pragma once

#include "families/config_fields.h"
#include "sftbench/families/family.h"

namespace sftbench {

// Names of tensors in the checkpoints of Llama and its descendants.
inline constexpr ModelNames kLlamaNames = {"model.embed_tokens", "model.layers.", "model.norm",
                                           "lm_head"};

// LlamaConfig.
void read_llama(ConfigFields& fields, ModelConfig& config);
ModelShape llama_shape(const ModelConfig& config);

extern const Family kGptOssFamily;
extern const Family kGraniteFamily;
extern const Family kGraniteMoeFamily;
extern const Family kGraniteMoeHybridFamily;
extern const Family kGraniteMoeSharedFamily;
extern const Family kLlamaFamily;
extern const Family kMistralFamily;
extern const Family kMixtralFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;

}  // namespace sftbench
