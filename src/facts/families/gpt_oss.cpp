// gpt-oss (OpenAI 2025; GptOssConfig, GptOssForCausalLM): a mixture of experts with biases,
// attention sinks, and a window in every other layer.
#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

void read_windows(ConfigFields& fields, ModelConfig& config) {
  config.attention.window = fields.extent("sliding_window", 128);
  read_periodic_windows(fields, config, /*period=*/2);
}

// Without any word on positions the class has YaRN.
void read_positions(ConfigFields& fields, ModelConfig& config) {
  constexpr double kDefaultTheta = 150000.0;
  read_rope(fields, config, {.theta = kDefaultTheta});
  if (fields.find("rope_scaling") != nullptr || fields.find("rope_parameters") != nullptr) return;
  config.rope.type = RopeType::kYarn;
  config.rope.factor = 32.0;
  config.rope.original_max_position_embeddings = 4096;
  config.rope.truncate = false;
}

void read_gpt_oss(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeadsOfGptOss = 8, kHeadDimOfGptOss = 64;
  read_sizes(fields, config, /*max_position_embeddings=*/131072);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  config.norm_rounds_last = true;
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config,
             {.key_value_heads = kKeyValueHeadsOfGptOss, .head_dim = kHeadDimOfGptOss});
  read_attention_bias(fields, config, true);
  config.attention.sinks = true;
  if (config.attention.dropout > 0) {
    fields.add("attention_dropout", "found " + std::to_string(config.attention.dropout),
               "0: attention with sinks has no dropout");
  }
  read_windows(fields, config);
  read_positions(fields, config);
  read_experts(fields, config, {.count = 128, .per_token = 4});
  config.experts->storage = ExpertStorage::kTransposed;
  config.experts->clamped = true;
  config.experts->limit = fields.positive("swiglu_limit", 7.0);
  config.experts->alpha = fields.positive("swiglu_alpha", 1.702);
}

ModelShape gpt_oss_shape(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t experts = config.experts->count;
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    LayerShape layer;
    layer.tensors.push_back({"input_layernorm.weight", {hidden}});
    append_attention(layer, config, config.attention.window_of(i));
    layer.tensors.push_back({"post_attention_layernorm.weight", {hidden}});
    layer.tensors.push_back({"mlp.router.weight", {experts, hidden}});
    layer.tensors.push_back({"mlp.router.bias", {experts}});
    layer.tensors.push_back({"mlp.experts.gate_up_proj", {experts, hidden, 2 * inner}});
    layer.tensors.push_back({"mlp.experts.gate_up_proj_bias", {experts, 2 * inner}});
    layer.tensors.push_back({"mlp.experts.down_proj", {experts, inner, hidden}});
    layer.tensors.push_back({"mlp.experts.down_proj_bias", {experts, hidden}});
    append_experts(layer, config);
    layers.push_back(std::move(layer));
  }
  return decoder_shape(config, layers);
}

}  // namespace

const Family kGptOssFamily = {"gpt_oss",   "GptOssForCausalLM", "GptOssDecoderLayer",
                              kLlamaNames, read_gpt_oss,        gpt_oss_shape};

}  // namespace sftbench
