// EXAONE 4 (LG AI Research 2025; Exaone4Config, Exaone4ForCausalLM): Llama with norms behind
// attention and MLP instead of before them, norms over each head of queries and keys, and windows
// in three of four layers. Where there are windows, these layers alone have positions, and else
// all.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_exaone4_layers(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kWindow = 4096, kPeriod = 4;
  AttentionConfig& attention = config.attention;
  read_window(fields, config, kWindow);
  read_periodic_windows(fields, config, kPeriod, "sliding_window_pattern");
  for (int64_t i = 0; attention.window > 0 && i < config.num_hidden_layers; ++i)
    attention.unrotated.push_back(attention.window_of(i) == 0);
}

void read_exaone4(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32;
  read_sizes(fields, config, /*max_position_embeddings=*/2048);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  config.layer_form = LayerForm::kNormsBehind;
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.norms = QkNorms::kOfHeads;
  require_silu(fields);
  read_exaone4_layers(fields, config);
  read_rope(fields, config);
}

}  // namespace

const Family kExaone4Family = {"exaone4",   "Exaone4ForCausalLM", "Exaone4DecoderLayer",
                               kLlamaNames, read_exaone4,         llama_shape};

}  // namespace sftbench
