#include "sftbench/families/model_shape.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "families/shape_parts.h"
#include "sftbench/base/error.h"
#include "sftbench/families/family.h"

namespace sftbench {
namespace {

int64_t elements_of(const std::vector<TensorShape>& tensors) {
  int64_t elements = 0;
  for (const TensorShape& tensor : tensors) elements += tensor.elements();
  return elements;
}

}  // namespace

int64_t TensorShape::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t LayerShape::parameters() const {
  return elements_of(tensors);
}

int64_t ModelShape::parameters() const {
  int64_t elements = elements_of(before) + elements_of(after);
  for (const LayerShape& layer : layers) elements += layer.parameters();
  return elements;
}

int64_t ModelShape::idle_parameters() const {
  int64_t elements = vision_parameters;
  for (const LayerShape& layer : layers) elements += layer.experts.all - layer.experts.active;
  return elements;
}

ModelShape shape_of(const ModelConfig& config) {
  return family_of(config.family).shape(config);
}

bool is_lora_target(const std::string& linear, const std::string& target) {
  if (target == "all-linear" || linear == target) return true;
  return linear.size() > target.size() && linear.ends_with(target) &&
         linear[linear.size() - target.size() - 1] == '.';
}

void append_linear(LayerShape& layer, const std::string& name, int64_t in, int64_t out, bool bias,
                   int input) {
  layer.linears.push_back({name, in, out, input});
  layer.tensors.push_back({name + ".weight", {out, in}});
  if (bias) layer.tensors.push_back({name + ".bias", {out}});
}

void append_layer_norm(std::vector<TensorShape>& tensors, const std::string& name, int64_t hidden) {
  tensors.push_back({name + ".weight", {hidden}});
  tensors.push_back({name + ".bias", {hidden}});
}

void append_layer_norm_bias(ModelShape& shape) {
  TensorShape bias = shape.after.front();
  bias.name.replace(bias.name.rfind("weight"), 6, "bias");
  shape.after.insert(shape.after.begin() + 1, bias);
}

void append_attention(LayerShape& layer, const ModelConfig& config, int64_t window) {
  const AttentionConfig& attention = config.attention;
  const int64_t hidden = config.hidden_size;
  const int64_t queries = attention.query_width(), keys = attention.key_value_width();
  append_linear(layer, "self_attn.q_proj", hidden, queries, attention.input_bias, kMixerInput);
  append_linear(layer, "self_attn.k_proj", hidden, keys, attention.input_bias, kMixerInput);
  append_linear(layer, "self_attn.v_proj", hidden, keys, attention.input_bias, kMixerInput);
  append_linear(layer, "self_attn.o_proj", queries, hidden, attention.output_bias);
  if (attention.head_norms) {
    layer.tensors.push_back({"self_attn.q_norm.weight", {attention.head_dim}});
    layer.tensors.push_back({"self_attn.k_norm.weight", {attention.head_dim}});
    layer.kept_values += queries + keys;
  }
  if (attention.sinks) layer.tensors.push_back({"self_attn.sinks", {attention.heads}});
  layer.query_width = queries;
  layer.window = window;
  // The norm's and the products' inputs, rotated queries and keys, values, the mixed values.
  layer.kept_values += 2 * hidden + 2 * queries + 2 * keys;
}

void append_mlp_values(LayerShape& layer, int64_t hidden, int64_t inner, int64_t halves) {
  const int64_t inside = (halves + 1) * inner;
  layer.mlp = {inner, inside, inside, halves * inner * hidden};
  layer.last_product = inner * hidden;
  layer.kept_values += hidden + inside;
}

LayerShape bloom_layer(const ModelConfig& config, const std::string& attention) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  LayerShape layer;
  append_layer_norm(layer.tensors, "input_layernorm", hidden);
  append_linear(layer, attention + ".query_key_value", hidden, 3 * hidden, true, kMixerInput);
  append_linear(layer, attention + ".dense", hidden, hidden, true);
  append_layer_norm(layer.tensors, "post_attention_layernorm", hidden);
  append_linear(layer, "mlp.dense_h_to_4h", hidden, inner, true, kMlpInput);
  append_linear(layer, "mlp.dense_4h_to_h", inner, hidden, true, kMlpInside);
  layer.query_width = hidden;
  layer.kept_values = 7 * hidden;
  append_mlp_values(layer, hidden, inner, 1);
  return layer;
}

void append_gated_mlp(LayerShape& layer, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  append_linear(layer, "mlp.gate_proj", hidden, inner, config.mlp_bias, kMlpInput);
  append_linear(layer, "mlp.up_proj", hidden, inner, config.mlp_bias, kMlpInput);
  append_linear(layer, "mlp.down_proj", inner, hidden, config.mlp_bias, kMlpInside);
  layer.kept_values += hidden;  // the norm's input
  append_mlp_values(layer, hidden, inner, 2);
}

void append_experts(LayerShape& layer, const ModelConfig& config) {
  const ExpertsConfig& experts = *config.experts;
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  layer.experts.routed = experts.count * hidden;
  layer.experts.active = experts.per_token * 3 * inner * hidden;
  layer.experts.all = experts.count * 3 * inner * hidden;
  layer.experts.row_values = experts.per_token * hidden;
  layer.experts.inner_values = experts.per_token * inner;
  // The norm's and the router's inputs, and of each choice its row, its result, two halves and their product.
  layer.kept_values += 2 * hidden + 2 * layer.experts.row_values + 3 * layer.experts.inner_values;
}

void append_stacked_experts(LayerShape& layer, const ModelConfig& config) {
  const int64_t count = config.experts->count;
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  layer.tensors.push_back({"block_sparse_moe.router.layer.weight", {count, hidden}});
  layer.tensors.push_back({"block_sparse_moe.input_linear.weight", {count, 2 * inner, hidden}});
  layer.tensors.push_back({"block_sparse_moe.output_linear.weight", {count, hidden, inner}});
  append_experts(layer, config);
}

void append_shared_mlp(LayerShape& layer, const ModelConfig& config) {
  const int64_t hidden = config.hidden_size, inner = config.shared_intermediate_size;
  if (inner == 0) return;
  append_linear(layer, "shared_mlp.input_linear", hidden, 2 * inner, false, kMlpInput);
  append_linear(layer, "shared_mlp.output_linear", inner, hidden, false, kMlpInside);
  append_mlp_values(layer, hidden, inner, 2);
}

LayerShape llama_layer(const ModelConfig& config, int64_t index) {
  LayerShape layer;
  layer.tensors.push_back({"input_layernorm.weight", {config.hidden_size}});
  append_attention(layer, config, config.attention.window_of(index));
  layer.tensors.push_back({"post_attention_layernorm.weight", {config.hidden_size}});
  append_gated_mlp(layer, config);
  return layer;
}

ModelShape decoder_shape(const ModelConfig& config, const std::vector<LayerShape>& layers) {
  const ModelNames& names = family_of(config.family).names;
  const TensorShape table = {std::string(names.embedding) + ".weight",
                             {config.vocab_size, config.hidden_size}};
  ModelShape shape;
  shape.before.push_back(table);
  const auto count = static_cast<size_t>(config.num_hidden_layers);
  shape.layers = layers;
  if (layers.size() == 1) shape.layers.assign(count, layers.front());
  check(shape.layers.size() == count, "every layer has a shape");
  shape.after.push_back({std::string(names.final_norm) + ".weight", {config.hidden_size}});
  if (!config.tie_word_embeddings) {
    shape.after.push_back({std::string(names.output) + ".weight", table.sizes});
    shape.lookup_parameters = table.elements();
  }
  return shape;
}

}  // namespace sftbench
