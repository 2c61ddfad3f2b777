// StableLM (Bellagente et al. 2024; StableLmConfig, StableLmForCausalLM): Llama with LayerNorm and
// partly rotated heads, whose branches may read one norm.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_stablelm(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32;
  read_sizes(fields, config, /*max_position_embeddings=*/4096);
  config.norm_eps = fields.positive("layer_norm_eps", 1e-5);
  config.layer_norm = true;
  if (fields.boolean("use_parallel_residual", false)) config.layer_form = LayerForm::kParallel;
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = fields.boolean("use_qkv_bias", false);
  require_none(fields, "qk_layernorm", "false: norms of each head apart are not built");
  require_none(fields, "hidden_dropout", "0: dropout of the MLP alone is not built");
  require_silu(fields);
  read_rope(fields, config, {.share = 0.25});
}

}  // namespace

const Family kStableLmFamily = {"stablelm",  "StableLmForCausalLM", "StableLmDecoderLayer",
                                kLlamaNames, read_stablelm,         llama_shape};

}  // namespace sftbench
