// Bloom (BloomConfig, BloomForCausalLM; BigScience 2022): ALiBi (Press et al. 2022) instead of
// positions, and a LayerNorm behind the embedding.
#include "families/config_fields.h"
#include "families/config_parts.h"
#include "families/gpt.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

constexpr ModelNames kBloomNames = {"transformer.word_embeddings", "transformer.h.",
                                    "transformer.ln_f", "lm_head"};
constexpr int64_t kAnyLength = int64_t{1} << 30;

void read_bloom(ConfigFields& fields, ModelConfig& config) {
  read_gpt_sizes(fields, fields.find("n_embed") == nullptr ? "hidden_size" : "n_embed", config);
  read_embedding(fields, config, /*tied_by_default=*/true);
  config.pad_token_id.reset();  // its embedding has no padding row
  config.max_position_embeddings = kAnyLength;
  config.intermediate_size = 4 * config.hidden_size;
  config.activation = Activation::kGeluTanh;
  config.attention.dropout = read_dropout(fields, "attention_dropout", 0.0);
  config.residual_dropout = read_dropout(fields, "hidden_dropout", 0.0);
  config.residual_behind_norm = fields.boolean("apply_residual_connection_post_layernorm", false);
}

ModelShape bloom_shape(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  LayerShape layer;
  append_layer_norm(layer.tensors, "input_layernorm", hidden);
  append_linear(layer, "self_attention.query_key_value", hidden, 3 * hidden, true, kMixerInput);
  append_linear(layer, "self_attention.dense", hidden, hidden, true);
  append_layer_norm(layer.tensors, "post_attention_layernorm", hidden);
  append_linear(layer, "mlp.dense_h_to_4h", hidden, inner, true, kMlpInput);
  append_linear(layer, "mlp.dense_4h_to_h", inner, hidden, true, kMlpInside);
  layer.query_width = hidden;
  layer.kept_values = 7 * hidden;
  append_mlp_values(layer, hidden, inner, 1);
  ModelShape shape = decoder_shape(config, {layer});
  append_layer_norm(shape.before, "transformer.word_embeddings_layernorm", hidden);
  append_layer_norm_bias(shape);
  return shape;
}

}  // namespace

const Family kBloomFamily = {ModelFamily::kBloom, "bloom",    "BloomForCausalLM", "BloomBlock",
                             kBloomNames,         read_bloom, bloom_shape};

}  // namespace sftbench
