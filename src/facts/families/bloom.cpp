// Bloom (BloomConfig, BloomForCausalLM; BigScience 2022): ALiBi (Press et al. 2022) instead of
// positions, and a LayerNorm behind the embedding.
#include "families/config_fields.h"
#include "families/config_parts.h"
#include "families/llama.h"
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
  describe_fused_layers(config, "self_attention");
}

ModelShape bloom_shape(const ModelConfig& config) {
  ModelShape shape = llama_shape(config);
  append_layer_norm(shape.before, "transformer.word_embeddings_layernorm", config.hidden_size);
  return shape;
}

}  // namespace

const Family kBloomFamily = {"bloom",    "BloomForCausalLM", "BloomBlock", kBloomNames,
                             read_bloom, bloom_shape,        nullptr,      ModelClass::kBloom};

}  // namespace sftbench
