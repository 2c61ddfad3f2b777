// Qwen2 (Qwen2Config, Qwen2ForCausalLM): Llama with biases on queries, keys and values. Qwen3: no
// biases, and an RMSNorm over each head of queries and keys. Both may give some layers a window.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_qwen(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/false);
  require_silu(fields);
  read_layer_windows(fields, config);
}

void read_qwen2(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32;
  read_qwen(fields, config);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = true;
  read_rope(fields, config);
}

void read_qwen3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32, kHeadDim = 128;
  read_qwen(fields, config);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads, .head_dim = kHeadDim});
  read_attention_bias(fields, config);
  config.attention.norms = QkNorms::kOfHeads;
  read_rope(fields, config);
}

}  // namespace

const Family kQwen2Family = {"qwen2",     "Qwen2ForCausalLM", "Qwen2DecoderLayer",
                             kLlamaNames, read_qwen2,         llama_shape};

const Family kQwen3Family = {"qwen3",     "Qwen3ForCausalLM", "Qwen3DecoderLayer",
                             kLlamaNames, read_qwen3,         llama_shape};

}  // namespace sftbench
