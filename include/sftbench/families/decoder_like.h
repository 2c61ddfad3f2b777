// Predictions of models whose family is not trained: the decoder of a trained family whose sizes
// are the same.
#pragma once

#include <optional>
#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// config.json of that decoder. Its sizes have the names that Hugging Face's classes and older ones
// give them (GLM-4's ChatGLMConfig, QWenConfig). Of a model that reads images or sound it is the
// text model alone. A gated MLP makes it a Llama, a plain one StarCoder2, experts make it Qwen2
// MoE. All layers count as attention. Nothing where a size is missing, or where an encoder stands
// beside the decoder.
std::optional<Json> decoder_like(const Json& hf_config);

// The family that decoder_like() made this of. Empty: a model's own config.json.
std::string stands_for(const Json& hf_config);

}  // namespace sftbench
