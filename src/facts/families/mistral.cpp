// Mistral (MistralConfig, MistralForCausalLM): no biases, a window of keys.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

constexpr int64_t kDefaultKeyValueHeads = 8;
constexpr int64_t kDefaultWindow = 4096;

void read_mistral(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/131072);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config, {.key_value_heads = kDefaultKeyValueHeads});
  read_window(fields, config, kDefaultWindow);
  require_silu(fields);
  read_rope(fields, config);
}

}  // namespace

const Family kMistralFamily = {"mistral",   "MistralForCausalLM", "MistralDecoderLayer",
                               kLlamaNames, read_mistral,         llama_shape};

}  // namespace sftbench
