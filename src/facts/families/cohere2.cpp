// Cohere 2 (Cohere 2024, Command R7B and A; Cohere2Config, Cohere2ForCausalLM): LayerNorm without
// bias, both branches read one norm, a factor on the logits, windows in three of four layers, and
// positions in these alone.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_cohere2(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kWindow = 4096;
  read_sizes(fields, config, /*max_position_embeddings=*/8192);
  config.norm_eps = fields.positive("layer_norm_eps", 1e-5);
  config.layer_norm = true;
  config.norm_bias = false;
  config.layer_form = LayerForm::kParallel;
  read_embedding(fields, config, /*tied_by_default=*/true, /*default_padding_row=*/0);
  read_heads(fields, config);
  read_attention_bias(fields, config);
  require_silu(fields);
  config.multipliers.logits = fields.positive("logit_scale", 0.0625);
  read_window(fields, config, kWindow);
  read_periodic_windows(fields, config, /*period=*/4, "sliding_window_pattern");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.attention.unrotated.push_back(config.attention.window_of(i) == 0);
  config.attention.rotates_neighbors = true;
  read_rope(fields, config);
}

}  // namespace

const Family kCohere2Family = {"cohere2",   "Cohere2ForCausalLM", "Cohere2DecoderLayer",
                               kLlamaNames, read_cohere2,         llama_shape};

}  // namespace sftbench
