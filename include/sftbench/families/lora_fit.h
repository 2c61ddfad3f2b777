// Whether adapters go to the linears that they are meant for: asked before a run, of a model's
// shape, and again of the model that stands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {

struct AdaptedLinear {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  int64_t in = 0, out = 0;
  int64_t rank = 0;        // of its own adapter; 0: as the others'
  bool of_tokens = false;  // the embedding or the output projection, which all-linear does not mean
};

// Whether one of peft's target_modules means it.
bool is_adapted(const AdaptedLinear& linear, const std::vector<std::string>& targets);

// All linears of a model of a known family, by their whole names, behind them embedding and output
// projection.
std::vector<AdaptedLinear> linears_of(const ModelConfig& config, const ModelShape& shape);

// Why adapters of `rank` cannot go to `targets` (is_lora_target()) among a model's linears; empty:
// they can. Every target has to name a linear: a misspelt one would measure less than was asked
// for.
std::string lora_refusal(const std::vector<AdaptedLinear>& linears,
                         const std::vector<std::string>& targets, int64_t rank);

// Why embedding and output projection do not take such adapters, where they are among the targets;
// empty: they do. `plain`: neither DoRA nor activated LoRA.
std::string token_adapters_refusal(const std::vector<AdaptedLinear>& linears,
                                   const std::vector<std::string>& targets, bool plain);

// Whether peft's modules_to_save have the parameter: its module, or one around it, has a name that
// ends in one of them.
bool is_saved_whole(const std::string& parameter, const std::vector<std::string>& modules);

// Names of all parameters of a model of a known family, and of a tied output projection.
std::vector<std::string> parameters_of(const ModelConfig& config, const ModelShape& shape);

// Why `modules` cannot be trained whole beside adapters; empty: they can. Each has to name a module
// with parameters, and quantized ones do not train.
std::string saved_modules_refusal(const std::vector<std::string>& parameters,
                                  const std::vector<std::string>& modules,
                                  const std::function<bool(const std::string&)>& is_quantized);

}  // namespace sftbench
