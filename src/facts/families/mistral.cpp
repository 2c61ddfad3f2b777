// Mistral (MistralConfig, MistralForCausalLM): no biases, a window of keys. Ministral 3
// (Ministral3Config): YaRN, and queries that grow with their position beyond the length of
// pre-training.
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

// The class has rope_parameters of its own where config.json has none. Published files have some.
void read_ministral3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kPaddingRow = 11, kHeadDim = 128;
  read_sizes(fields, config, /*max_position_embeddings=*/262144);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  read_embedding(fields, config, /*tied_by_default=*/false, kPaddingRow);
  read_heads(fields, config, {.key_value_heads = kDefaultKeyValueHeads, .head_dim = kHeadDim});
  read_window(fields, config, /*otherwise=*/0);
  require_silu(fields);
  read_rope(fields, config, {.theta = 1e6, .grows_queries = true});
}

}  // namespace

const Family kMistralFamily = {"mistral",   "MistralForCausalLM", "MistralDecoderLayer",
                               kLlamaNames, read_mistral,         llama_shape};

const Family kMinistral3Family = {"ministral3", "Ministral3ForCausalLM", "Ministral3DecoderLayer",
                                  kLlamaNames,  read_ministral3,         llama_shape};

}  // namespace sftbench
