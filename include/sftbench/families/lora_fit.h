// Whether adapters go to the linears that they are meant for: asked before a run, of a model's shape, and
// again of the model that stands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {

struct AdaptedLinear {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t in = 0, out = 0;
};

// All linears of a model of a known family, by their whole names.
std::vector<AdaptedLinear> linears_of(const ModelConfig& config, const ModelShape& shape);

// Why adapters of `rank` cannot go to `targets` (is_lora_target()) among a model's linears; empty: they can.
// Every target has to name a linear: a misspelt one would measure less than was asked for.
std::string lora_refusal(const std::vector<AdaptedLinear>& linears,
                         const std::vector<std::string>& targets, int64_t rank);

}  // namespace sftbench
