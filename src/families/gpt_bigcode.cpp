// GPTBigCode (GPTBigCodeConfig, GPTBigCodeForCausalLM; StarCoder, Li et al. 2023): learned positions,
// one head of keys and values for all queries (Shazeer 2019).
#include "families/config_fields.h"
#include "families/config_parts.h"
#include "families/gpt.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

constexpr ModelNames kGptBigCodeNames = {"transformer.wte", "transformer.h.", "transformer.ln_f",
                                         "lm_head"};

void read_activation(ConfigFields& fields, ModelConfig& config) {
  const std::string name = fields.text("activation_function", "gelu_pytorch_tanh");
  config.activation = Activation::kGeluTanh;
  if (name == "gelu") {
    config.activation = Activation::kGelu;
  } else if (name != "gelu_pytorch_tanh" && name != "gelu_new") {
    fields.add("activation_function", "found " + shown(Json(name)),
               "\"gelu\", \"gelu_new\" or \"gelu_pytorch_tanh\"");
  }
}

void read_gpt_bigcode(ConfigFields& fields, ModelConfig& config) {
  read_gpt_sizes(fields, "n_embd", config);
  read_embedding(fields, config, /*tied_by_default=*/true);
  config.pad_token_id.reset();  // its embedding has no padding row
  config.max_position_embeddings = fields.extent("n_positions", 1024);
  config.intermediate_size = fields.extent("n_inner", 4 * config.hidden_size);
  if (fields.boolean("multi_query", true)) config.attention.key_value_heads = 1;
  if (!fields.boolean("scale_attn_weights", true)) config.attention.scale = 1.0;
  config.attention.dropout = read_dropout(fields, "attn_pdrop", 0.1);
  config.embedding_dropout = read_dropout(fields, "embd_pdrop", 0.1);
  config.residual_dropout = read_dropout(fields, "resid_pdrop", 0.1);
  read_activation(fields, config);
  if (fields.boolean("add_cross_attention", false)) {
    fields.add("add_cross_attention", "found true", "false: there is no encoder");
  }
}

ModelShape gpt_bigcode_shape(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const AttentionConfig& attention = config.attention;
  LayerShape layer;
  append_layer_norm(layer.tensors, "ln_1", hidden);
  append_linear(layer, "attn.c_attn", hidden, hidden + 2 * attention.key_value_width(), true,
                kMixerInput);
  append_linear(layer, "attn.c_proj", hidden, hidden, true);
  append_layer_norm(layer.tensors, "ln_2", hidden);
  append_linear(layer, "mlp.c_fc", hidden, inner, true, kMlpInput);
  append_linear(layer, "mlp.c_proj", inner, hidden, true, kMlpInside);
  layer.query_width = attention.query_width();
  layer.kept_values = 5 * hidden + 2 * attention.key_value_width();
  append_mlp_values(layer, hidden, inner, 1);
  ModelShape shape = decoder_shape(config, {layer});
  shape.before.push_back({"transformer.wpe.weight", {config.max_position_embeddings, hidden}});
  shape.lookup_parameters += shape.before.back().elements();
  append_layer_norm_bias(shape);
  return shape;
}

}  // namespace

const Family kGptBigCodeFamily = {
    ModelFamily::kGptBigCode, "gpt_bigcode",    "GPTBigCodeForCausalLM", "GPTBigCodeBlock",
    kGptBigCodeNames,         read_gpt_bigcode, gpt_bigcode_shape};

}  // namespace sftbench
