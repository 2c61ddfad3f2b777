// GPT-NeoX (Black et al. 2022; GPTNeoXConfig, GPTNeoXForCausalLM) and Pythia: LayerNorm, biases,
// partly rotated heads, and branches that both read the stream before the layer.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

constexpr ModelNames kGptNeoxNames = {"gpt_neox.embed_in", "gpt_neox.layers.",
                                      "gpt_neox.final_layer_norm", "embed_out"};

// transformers 5 calls the output projection lm_head. Checkpoints have it under either name.
std::string canonical_neox_name(const std::string& stored) {
  return stored == "lm_head.weight" ? "embed_out.weight" : stored;
}

void read_gpt_neox(ConfigFields& fields, ModelConfig& config) {
  read_gpt_sizes(fields, "hidden_size", config);
  config.norm_eps = fields.positive("layer_norm_eps", 1e-5);
  read_embedding(fields, config, /*tied_by_default=*/false);
  config.pad_token_id.reset();  // its embedding has no padding row
  config.max_position_embeddings = fields.extent("max_position_embeddings", 2048);
  config.intermediate_size = fields.extent("intermediate_size", 24576);
  if (fields.boolean("use_parallel_residual", true))
    config.layer_form = LayerForm::kParallelOfTwoNorms;
  describe_fused_layers(config, "attention");
  read_attention_bias(fields, config, true);
  read_activation(fields, config, "hidden_act", "gelu");
  config.attention.dropout = read_dropout(fields, "attention_dropout", 0.0);
  config.embedding_dropout = config.residual_dropout = read_dropout(fields, "hidden_dropout", 0.0);
  config.rotary = true;
  read_rope(fields, config,
            {.share = 0.25, .theta_key = "rotary_emb_base", .share_key = "rotary_pct"});
}

}  // namespace

const Family kGptNeoxFamily = {"gpt_neox",         "GPTNeoXForCausalLM", "GPTNeoXLayer",
                               kGptNeoxNames,      read_gpt_neox,        llama_shape,
                               canonical_neox_name};

}  // namespace sftbench
