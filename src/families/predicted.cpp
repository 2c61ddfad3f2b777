// Only what shapes need is read of their config.json: activations, rotations and scales cost the same
// whatever they are.
#include "families/predicted.h"

#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"

namespace sftbench {
namespace {

constexpr ModelNames kGptNeoxNames = {"gpt_neox.embed_in", "gpt_neox.layers.",
                                      "gpt_neox.final_layer_norm", "embed_out"};

void append_norm(LayerShape& layer, const std::string& name, int64_t width) {
  layer.tensors.push_back({name + ".weight", {width}});
}

using LayerOf = LayerShape (*)(const ModelConfig& config, int64_t index);

template <LayerOf layer_of>
ModelShape shape_by_layers(const ModelConfig& config) {
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) layers.push_back(layer_of(config, i));
  ModelShape shape = decoder_shape(config, layers);
  if (config.layer_norm) append_layer_norm_bias(shape);
  return shape;
}

void read_window(ConfigFields& fields, ModelConfig& config, int64_t otherwise) {
  config.attention.window =
      fields.extent("sliding_window", fields.is_null("sliding_window") ? 0 : otherwise);
}

// --- Gemma 2 and 3: norms before and behind attention and MLP, windows in most layers -------------

// Of `period` layers the last one sees everything.
void read_gemma(ConfigFields& fields, ModelConfig& config, int64_t period) {
  constexpr int64_t kKeyValueHeads = 4, kHeadDim = 256, kWindow = 4096;
  read_sizes(fields, config, /*max_position_embeddings=*/8192);
  read_embedding(fields, config, /*tied_by_default=*/true);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads, .head_dim = kHeadDim});
  config.activation = Activation::kGeluTanh;
  read_window(fields, config, kWindow);
  if (const Json* types = fields.find("layer_types")) {
    read_layer_types(fields, *types, config);
    return;
  }
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.attention.windowed.push_back((i + 1) % period != 0);
}

void read_gemma2(ConfigFields& fields, ModelConfig& config) {
  read_gemma(fields, config, fields.extent("sliding_window_pattern", 2));
}

void read_gemma3(ConfigFields& fields, ModelConfig& config) {
  read_gemma(fields, config, fields.extent("sliding_window_pattern", 6));
  config.attention.head_norms = true;
}

LayerShape gemma_layer(const ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size;
  LayerShape layer = llama_layer(config, index);
  append_norm(layer, "pre_feedforward_layernorm", hidden);
  append_norm(layer, "post_feedforward_layernorm", hidden);
  layer.kept_values += 2 * hidden;  // the inputs of the norms behind
  return layer;
}

// --- OLMo 2: norms behind attention and MLP, and over all queries and all keys --------------------

void read_olmo2(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/2048);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config);
  config.attention.input_bias = config.attention.output_bias =
      fields.boolean("attention_bias", false);
}

LayerShape olmo2_layer(const ModelConfig& config, int64_t index) {
  const int64_t queries = config.attention.query_width();
  const int64_t keys = config.attention.key_value_width();
  LayerShape layer;
  append_attention(layer, config, config.attention.window_of(index));
  append_norm(layer, "self_attn.q_norm", queries);
  append_norm(layer, "self_attn.k_norm", keys);
  layer.kept_values += queries + keys;
  append_norm(layer, "post_attention_layernorm", config.hidden_size);
  append_gated_mlp(layer, config);
  append_norm(layer, "post_feedforward_layernorm", config.hidden_size);
  return layer;
}

// --- Phi 3 and 4: one linear for queries, keys and values, one for gate and up --------------------

void read_phi3(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/4096);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config);
  read_window(fields, config, 0);
}

LayerShape phi3_layer(const ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t queries = config.attention.query_width();
  const int64_t keys = config.attention.key_value_width();
  LayerShape layer;
  append_norm(layer, "input_layernorm", hidden);
  append_linear(layer, "self_attn.qkv_proj", hidden, queries + 2 * keys, false, kMixerInput);
  append_linear(layer, "self_attn.o_proj", queries, hidden, false);
  append_norm(layer, "post_attention_layernorm", hidden);
  append_linear(layer, "mlp.gate_up_proj", hidden, 2 * inner, false, kMlpInput);
  append_linear(layer, "mlp.down_proj", inner, hidden, false, kMlpInside);
  layer.query_width = queries;
  layer.window = config.attention.window_of(index);
  layer.kept_values = 3 * hidden + 2 * queries + 2 * keys;
  append_mlp_values(layer, hidden, inner, 2);
  return layer;
}

// --- GPT-NeoX (Pythia) and StarCoder2: LayerNorm, biases, an MLP of two linears -------------------

// Bloom's parts, and an output projection of its own.
void read_gpt_neox(ConfigFields& fields, ModelConfig& config) {
  read_gpt_sizes(fields, "hidden_size", config);
  read_embedding(fields, config, /*tied_by_default=*/false);
  config.pad_token_id.reset();
  config.max_position_embeddings = fields.extent("max_position_embeddings", 2048);
  config.intermediate_size = fields.extent("intermediate_size", 4 * config.hidden_size);
  config.rotary = true;
}

LayerShape gpt_neox_layer(const ModelConfig& config, int64_t /*index*/) {
  return bloom_layer(config, "attention");
}

void read_starcoder2(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 2;
  read_sizes(fields, config, /*max_position_embeddings=*/4096);
  read_embedding(fields, config, /*tied_by_default=*/true);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = config.attention.output_bias = config.mlp_bias =
      fields.boolean("use_bias", true);
  config.layer_norm = true;
  read_window(fields, config, 0);
}

LayerShape starcoder2_layer(const ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  LayerShape layer;
  append_layer_norm(layer.tensors, "input_layernorm", hidden);
  append_attention(layer, config, config.attention.window_of(index));
  append_layer_norm(layer.tensors, "post_attention_layernorm", hidden);
  append_linear(layer, "mlp.c_fc", hidden, inner, config.mlp_bias, kMlpInput);
  append_linear(layer, "mlp.c_proj", inner, hidden, config.mlp_bias, kMlpInside);
  layer.kept_values += hidden;  // the norm's input
  append_mlp_values(layer, hidden, inner, 1);
  return layer;
}

// --- SmolLM3: Llama whose layers do not all rotate ------------------------------------------------

void read_smollm3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 4;
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/true);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = config.attention.output_bias =
      fields.boolean("attention_bias", false);
  config.mlp_bias = fields.boolean("mlp_bias", false);
}

constexpr Family predicted(ModelFamily id, const char* model_type, const char* architecture,
                           const char* layer_class, const ModelNames& names,
                           void (*read)(ConfigFields&, ModelConfig&),
                           ModelShape (*shape)(const ModelConfig&)) {
  return {id, model_type, architecture, layer_class, names, read, shape, nullptr, false};
}

}  // namespace

constinit const Family kGemma2Family =
    predicted(ModelFamily::kGemma2, "gemma2", "Gemma2ForCausalLM", "Gemma2DecoderLayer",
              kLlamaNames, read_gemma2, shape_by_layers<gemma_layer>);

constinit const Family kGemma3Family =
    predicted(ModelFamily::kGemma3, "gemma3_text", "Gemma3ForCausalLM", "Gemma3DecoderLayer",
              kLlamaNames, read_gemma3, shape_by_layers<gemma_layer>);

constinit const Family kGptNeoxFamily =
    predicted(ModelFamily::kGptNeox, "gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXLayer",
              kGptNeoxNames, read_gpt_neox, shape_by_layers<gpt_neox_layer>);

constinit const Family kOlmo2Family =
    predicted(ModelFamily::kOlmo2, "olmo2", "Olmo2ForCausalLM", "Olmo2DecoderLayer", kLlamaNames,
              read_olmo2, shape_by_layers<olmo2_layer>);

constinit const Family kPhi3Family =
    predicted(ModelFamily::kPhi3, "phi3", "Phi3ForCausalLM", "Phi3DecoderLayer", kLlamaNames,
              read_phi3, shape_by_layers<phi3_layer>);

constinit const Family kSmolLm3Family =
    predicted(ModelFamily::kSmolLm3, "smollm3", "SmolLM3ForCausalLM", "SmolLM3DecoderLayer",
              kLlamaNames, read_smollm3, llama_shape);

constinit const Family kStarcoder2Family = predicted(
    ModelFamily::kStarcoder2, "starcoder2", "Starcoder2ForCausalLM", "Starcoder2DecoderLayer",
    kLlamaNames, read_starcoder2, shape_by_layers<starcoder2_layer>);

}  // namespace sftbench
