// OLMo 2 (Team OLMo 2024; Olmo2Config, Olmo2ForCausalLM): Llama with norms behind attention and MLP
// instead of before them, and with norms over all queries and over all keys. OLMo 3 (Team OLMo
// 2025; Olmo3Config): a window in three of four layers, whose positions are not scaled.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_olmo_parts(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kPaddingRow = 1;
  read_sizes(fields, config, /*max_position_embeddings=*/2048);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  config.norm_rounds_last = true;
  config.layer_form = LayerForm::kNormsBehind;
  read_embedding(fields, config, /*tied_by_default=*/false, kPaddingRow);
  read_heads(fields, config);
  read_attention_bias(fields, config);
  config.attention.norms = QkNorms::kOfAll;
  require_silu(fields);
}

void read_olmo2(ConfigFields& fields, ModelConfig& config) {
  read_olmo_parts(fields, config);
  read_rope(fields, config);
}

void read_olmo3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kWindow = 4096, kPeriod = 4;
  read_olmo_parts(fields, config);
  read_window(fields, config, kWindow);
  read_periodic_windows(fields, config, kPeriod);
  read_layer_ropes(fields, config, {.theta = 5e5}, {.theta = 5e5});
}

}  // namespace

const Family kOlmo2Family = {"olmo2",     "Olmo2ForCausalLM", "Olmo2DecoderLayer",
                             kLlamaNames, read_olmo2,         llama_shape};

const Family kOlmo3Family = {"olmo3",     "Olmo3ForCausalLM", "Olmo3DecoderLayer",
                             kLlamaNames, read_olmo3,         llama_shape};

}  // namespace sftbench
