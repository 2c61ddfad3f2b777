// StarCoder2 (Lozhkov et al. 2024; Starcoder2Config, Starcoder2ForCausalLM): LayerNorm, biases, an
// MLP of two linears, and a window of keys.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_starcoder2(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 2;
  read_sizes(fields, config, /*max_position_embeddings=*/4096);
  config.norm_eps = fields.positive("norm_epsilon", 1e-5);
  config.layer_norm = true;
  read_embedding(fields, config, /*tied_by_default=*/true);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = config.attention.output_bias = config.mlp_bias =
      fields.boolean("use_bias", true);
  config.mlp = {MlpForm::kPlain, "mlp", "c_fc", "c_proj"};
  read_activation(fields, config, "hidden_act", "gelu_pytorch_tanh");
  config.embedding_dropout = read_dropout(fields, "embedding_dropout", 0.0);
  config.residual_dropout = read_dropout(fields, "residual_dropout", 0.0);
  read_window(fields, config, 0);
  read_rope(fields, config);
}

}  // namespace

const Family kStarcoder2Family = {"starcoder2", "Starcoder2ForCausalLM", "Starcoder2DecoderLayer",
                                  kLlamaNames,  read_starcoder2,         llama_shape};

}  // namespace sftbench
