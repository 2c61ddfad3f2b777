// Gemma (Gemma Team 2024; GemmaConfig): GELU in the gated MLP, an embedding that is multiplied by
// the root of its width, and norms whose factor is 1 + weight. Gemma 2: norms around both branches,
// caps on scores and logits, and a window in every other layer. Gemma 3 (Gemma3TextConfig): norms
// of queries and keys instead of the caps, a window in five of six layers, and positions of their
// own there.
#include <cmath>

#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_gemma_parts(ConfigFields& fields, ModelConfig& config, const HeadDefaults& heads,
                      int64_t max_position_embeddings, const std::string& activation_key) {
  read_sizes(fields, config, max_position_embeddings);
  config.norm_from_one = config.norm_rounds_last = true;
  config.multipliers.tokens = std::sqrt(static_cast<double>(config.hidden_size));
  read_embedding(fields, config, /*tied_by_default=*/true, /*default_padding_row=*/0);
  read_heads(fields, config, heads);
  read_attention_bias(fields, config);
  read_activation(fields, config, activation_key, "gelu_pytorch_tanh");
  require_none(fields, "use_bidirectional_attention", "false: attention is causal");
}

void read_gemma(ConfigFields& fields, ModelConfig& config) {
  read_gemma_parts(fields, config, {.key_value_heads = 16, .head_dim = 256}, 8192, "hidden_act");
  read_rope(fields, config);
}

double read_cap(ConfigFields& fields, const std::string& key, double otherwise) {
  return fields.is_null(key) ? 0.0
                             : fields.number(key, otherwise, 0.0, "a number above 0, or null");
}

// Of Gemma 2 and 3. Of `period` layers the last one sees everything.
void read_gemma_layers(ConfigFields& fields, ModelConfig& config, int64_t max_position_embeddings,
                       int64_t period, const char* period_key = nullptr) {
  constexpr int64_t kWindow = 4096;
  read_gemma_parts(fields, config, {.key_value_heads = 4, .head_dim = 256}, max_position_embeddings,
                   "hidden_activation");
  config.layer_form = LayerForm::kNormsAround;
  config.attention.scale = 1.0 / std::sqrt(fields.positive("query_pre_attn_scalar", 256.0));
  read_window(fields, config, kWindow);
  read_periodic_windows(fields, config, period, period_key);
}

void read_gemma2(ConfigFields& fields, ModelConfig& config) {
  read_gemma_layers(fields, config, 8192, 2);
  config.attention.score_cap = read_cap(fields, "attn_logit_softcapping", 50.0);
  config.multipliers.logit_cap = read_cap(fields, "final_logit_softcapping", 30.0);
  read_rope(fields, config);
}

void read_gemma3(ConfigFields& fields, ModelConfig& config) {
  read_gemma_layers(fields, config, 131072, 6, "sliding_window_pattern");
  config.attention.norms = QkNorms::kOfHeads;
  require_none(fields, "attn_logit_softcapping", "null: attention of Gemma 3 has no cap");
  config.multipliers.logit_cap = read_cap(fields, "final_logit_softcapping", 0.0);
  read_layer_ropes(fields, config, {.theta = 1e6},
                   {.theta = 1e4, .theta_key = "rope_local_base_freq"});
}

}  // namespace

const Family kGemmaFamily = {"gemma",     "GemmaForCausalLM", "GemmaDecoderLayer",
                             kLlamaNames, read_gemma,         llama_shape};

const Family kGemma2Family = {"gemma2",    "Gemma2ForCausalLM", "Gemma2DecoderLayer",
                              kLlamaNames, read_gemma2,         llama_shape};

const Family kGemma3Family = {"gemma3_text", "Gemma3ForCausalLM", "Gemma3DecoderLayer",
                              kLlamaNames,   read_gemma3,         llama_shape};

}  // namespace sftbench
