// GraniteMoe (IBM 2024; GraniteMoeConfig, GraniteMoeForCausalLM): Granite with a mixture of
// experts, all experts' matrices in one tensor; GraniteMoeShared has an MLP for every position
// beside it.
#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

void read_granitemoe(ConfigFields& fields, ModelConfig& config) {
  read_llama(fields, config);
  config.mlp_bias = false;  // a field that the family does not have
  read_granite_multipliers(fields, config);
  read_experts(fields, config);
}

void read_granitemoeshared(ConfigFields& fields, ModelConfig& config) {
  read_granitemoe(fields, config);
  const Json* shared = fields.find("shared_intermediate_size");
  if (shared == nullptr || *shared == 0) return;
  config.shared_intermediate_size = fields.extent("shared_intermediate_size");
}

ModelShape granitemoe_shape(const ModelConfig& config) {
  LayerShape layer;
  layer.tensors.push_back({"input_layernorm.weight", {config.hidden_size}});
  append_attention(layer, config, config.attention.window);
  layer.tensors.push_back({"post_attention_layernorm.weight", {config.hidden_size}});
  append_stacked_experts(layer, config);
  append_shared_mlp(layer, config);
  return decoder_shape(config, {layer});
}

}  // namespace

const Family kGraniteMoeFamily = {"granitemoe", "GraniteMoeForCausalLM", "GraniteMoeDecoderLayer",
                                  kLlamaNames,  read_granitemoe,         granitemoe_shape};

const Family kGraniteMoeSharedFamily = {
    "granitemoeshared", "GraniteMoeSharedForCausalLM", "GraniteMoeSharedDecoderLayer",
    kLlamaNames,        read_granitemoeshared,         granitemoe_shape};

}  // namespace sftbench
