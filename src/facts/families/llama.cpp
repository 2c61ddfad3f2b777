// Llama (LlamaConfig, LlamaForCausalLM).
#include "families/llama.h"

#include "families/config_parts.h"
#include "families/shape_parts.h"

namespace sftbench {

void read_llama(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/2048);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config);
  read_attention_bias(fields, config);
  config.mlp_bias = fields.boolean("mlp_bias", false);
  require_silu(fields);
  read_rope(fields, config);
}

ModelShape llama_shape(const ModelConfig& config) {
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.push_back(llama_layer(config, i));
  return decoder_shape(config, layers);
}

const Family kLlamaFamily = {"llama",     "LlamaForCausalLM", "LlamaDecoderLayer",
                             kLlamaNames, read_llama,         llama_shape};

}  // namespace sftbench
