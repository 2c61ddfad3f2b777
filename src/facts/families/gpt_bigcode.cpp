// GPTBigCode (GPTBigCodeConfig, GPTBigCodeForCausalLM; StarCoder, Li et al. 2023): learned
// positions, one head of keys and values for all queries (Shazeer 2019).
#include "families/gpt_bigcode.h"

#include <algorithm>

#include "families/config_fields.h"
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
void read_learned_positions(ConfigFields& fields, ModelConfig& config) {
  read_gpt_sizes(fields, "n_embd", config);
  read_embedding(fields, config, /*tied_by_default=*/true);
  config.pad_token_id.reset();  // its embedding has no padding row
  config.max_position_embeddings = fields.extent("n_positions", 1024);
  config.intermediate_size = fields.extent("n_inner", 4 * config.hidden_size);
  config.norm_names = {"ln_1", nullptr, "ln_2", nullptr};
  config.attention.module = "attn";
  config.attention.qkv = "c_attn";
  config.attention.output = "c_proj";
  config.mlp = {MlpForm::kPlain, "mlp", "c_fc", "c_proj"};
  if (!fields.boolean("scale_attn_weights", true)) config.attention.scale = 1.0;
  config.attention.dropout = read_dropout(fields, "attn_pdrop", 0.1);
  config.embedding_dropout = read_dropout(fields, "embd_pdrop", 0.1);
  config.residual_dropout = read_dropout(fields, "resid_pdrop", 0.1);
  if (fields.boolean("add_cross_attention", false)) {
    fields.add("add_cross_attention", "found true", "false: there is no encoder");
  }
}

ModelShape learned_positions_shape(const ModelConfig& config) {
  ModelShape shape = llama_shape(config);
  shape.before.push_back(
      {"transformer.wpe.weight", {config.max_position_embeddings, config.hidden_size}});
  shape.lookup_parameters += shape.before.back().elements();
  for (LayerShape& layer : shape.layers) {
    for (TensorShape& tensor : layer.tensors)
      if (config.transposed_linears) std::reverse(tensor.sizes.begin(), tensor.sizes.end());
  }
  return shape;
}

namespace {

constexpr ModelNames kGptBigCodeNames = {"transformer.wte", "transformer.h.", "transformer.ln_f",
                                         "lm_head"};

void read_gpt_bigcode(ConfigFields& fields, ModelConfig& config) {
  read_learned_positions(fields, config);
  config.attention.qkv_form = QkvForm::kByHead;
  if (fields.boolean("multi_query", true)) {
    config.attention.key_value_heads = 1;
    config.attention.qkv_form = QkvForm::kInBlocks;
  }
  read_activation(fields, config, "activation_function", "gelu_pytorch_tanh");
}

}  // namespace

const Family kGptBigCodeFamily = {
    "gpt_bigcode",    "GPTBigCodeForCausalLM", "GPTBigCodeBlock", kGptBigCodeNames,
    read_gpt_bigcode, learned_positions_shape, nullptr,           ModelClass::kGptBigCode};

}  // namespace sftbench
