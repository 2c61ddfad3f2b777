// Mixtral (Jiang et al. 2024; MixtralConfig, MixtralForCausalLM): Mistral with a mixture of experts,
// each expert's matrices in tensors of their own.
#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

void read_mixtral(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 8;
  read_sizes(fields, config, /*max_position_embeddings=*/131072);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.window = fields.extent("sliding_window", 0);
  require_silu(fields);
  read_experts(fields, config);
  config.experts->softmax_over_all = true;
  if (fields.number("router_jitter_noise", 0.0, -1e-300, "a number of at least 0") > 0) {
    fields.add("router_jitter_noise", "found " + shown(*fields.find("router_jitter_noise")),
               "0: inputs of the router are not changed at random");
  }
  constexpr double kDefaultTheta = 1e6;
  read_rope(fields, config, kDefaultTheta);
}

LayerShape mixtral_layer(const ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  LayerShape layer;
  layer.tensors.push_back({"input_layernorm.weight", {hidden}});
  append_attention(layer, config, config.attention.window_of(index));
  layer.tensors.push_back({"post_attention_layernorm.weight", {hidden}});
  layer.tensors.push_back({"block_sparse_moe.gate.weight", {config.experts->count, hidden}});
  for (int64_t e = 0; e < config.experts->count; ++e) {
    const std::string expert = "block_sparse_moe.experts." + std::to_string(e);
    layer.tensors.push_back({expert + ".w1.weight", {inner, hidden}});
    layer.tensors.push_back({expert + ".w3.weight", {inner, hidden}});
    layer.tensors.push_back({expert + ".w2.weight", {hidden, inner}});
  }
  append_experts(layer, config);
  return layer;
}

ModelShape mixtral_shape(const ModelConfig& config) {
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.push_back(mixtral_layer(config, i));
  return decoder_shape(config, layers);
}

}  // namespace

const Family kMixtralFamily = {ModelFamily::kMixtral, "mixtral",   "MixtralForCausalLM",
                               "MixtralDecoderLayer", kLlamaNames, read_mixtral,
                               mixtral_shape};

}  // namespace sftbench
