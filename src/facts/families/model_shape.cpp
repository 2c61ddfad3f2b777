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
  return family_of(config).shape(config);
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

namespace {

void append_norm(LayerShape& layer, const ModelConfig& config, const std::string& name,
                 int64_t width) {
  layer.tensors.push_back({name + ".weight", {width}});
  if (config.layer_norm && config.norm_bias) layer.tensors.push_back({name + ".bias", {width}});
}

void append_qk_norms(LayerShape& layer, const ModelConfig& config) {
  const AttentionConfig& attention = config.attention;
  if (attention.norms == QkNorms::kNone) return;
  const bool of_all = attention.norms == QkNorms::kOfAll;
  const int64_t queries = attention.query_width(), keys = attention.key_value_width();
  append_norm(layer, config, "self_attn.q_norm", of_all ? queries : attention.head_dim);
  append_norm(layer, config, "self_attn.k_norm", of_all ? keys : attention.head_dim);
  layer.kept_values += queries + keys;
}

}  // namespace

LayerNormNames norms_of(const ModelConfig& config) {
  if (config.norm_names) return *config.norm_names;
  switch (config.layer_form) {
    case LayerForm::kNormsBefore:
    case LayerForm::kParallelOfTwoNorms:
      return {"input_layernorm", nullptr, "post_attention_layernorm", nullptr};
    case LayerForm::kNormsBehind:
      return {nullptr, "post_attention_layernorm", nullptr, "post_feedforward_layernorm"};
    case LayerForm::kNormsAround:
      return {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
              "post_feedforward_layernorm"};
    case LayerForm::kParallel:
      return {"input_layernorm", nullptr, nullptr, nullptr};
  }
  return {};
}

void append_attention(LayerShape& layer, const ModelConfig& config, int64_t window) {
  const AttentionConfig& attention = config.attention;
  const std::string module = std::string(attention.module) + ".";
  const int64_t hidden = config.hidden_size;
  const int64_t queries = attention.query_width(), keys = attention.key_value_width();
  const auto from_input = [&](const char* name, int64_t width) {
    append_linear(layer, module + name, hidden, width, attention.input_bias, kMixerInput);
  };
  if (attention.qkv_form == QkvForm::kApart) {
    from_input("q_proj", queries);
    from_input("k_proj", keys);
    from_input("v_proj", keys);
  } else {
    from_input(attention.qkv, queries + 2 * keys);
  }
  append_linear(layer, module + attention.output, queries, hidden, attention.output_bias);
  append_qk_norms(layer, config);
  if (attention.sinks) layer.tensors.push_back({module + "sinks", {attention.heads}});
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

void append_mlp(LayerShape& layer, const ModelConfig& config, const MlpConfig& mlp, int64_t inner,
                bool bias) {
  const std::string module = std::string(mlp.module) + ".";
  const int64_t hidden = config.hidden_size, halves = mlp.form == MlpForm::kPlain ? 1 : 2;
  const auto from_input = [&](const char* name, int64_t width) {
    append_linear(layer, module + name, hidden, width, bias, kMlpInput);
  };
  if (mlp.form == MlpForm::kGated) {
    from_input("gate_proj", inner);
    from_input("up_proj", inner);
  } else {
    from_input(mlp.input, halves * inner);
  }
  append_linear(layer, module + mlp.output, inner, hidden, bias, kMlpInside);
  append_mlp_values(layer, hidden, inner, halves);
}

void append_experts(LayerShape& layer, const ModelConfig& config) {
  const ExpertsConfig& experts = *config.experts;
  const int64_t hidden = config.hidden_size, inner = experts.width;
  layer.experts.routed = experts.count * hidden;
  layer.experts.active = experts.per_token * 3 * inner * hidden;
  layer.experts.all = experts.count * 3 * inner * hidden;
  layer.experts.row_values = experts.per_token * hidden;
  layer.experts.inner_values = experts.per_token * inner;
  // The norm's and the router's inputs, and of each choice its row, its result, two halves and
  // their product.
  layer.kept_values += 2 * hidden + 2 * layer.experts.row_values + 3 * layer.experts.inner_values;
}

void append_experts_apart(LayerShape& layer, const ModelConfig& config) {
  const ExpertsConfig& experts = *config.experts;
  const int64_t hidden = config.hidden_size, inner = experts.width;
  const std::string module = std::string(experts.names.module) + ".";
  layer.tensors.push_back({module + "gate.weight", {experts.count, hidden}});
  for (int64_t e = 0; e < experts.count; ++e) {
    const std::string expert = module + "experts." + std::to_string(e) + ".";
    layer.tensors.push_back({expert + experts.names.gate + ".weight", {inner, hidden}});
    layer.tensors.push_back({expert + experts.names.up + ".weight", {inner, hidden}});
    layer.tensors.push_back({expert + experts.names.down + ".weight", {hidden, inner}});
  }
  append_experts(layer, config);
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
  const int64_t inner = config.shared_intermediate_size;
  if (inner == 0) return;
  append_mlp(layer, config, config.shared_mlp, inner, /*bias=*/false);
  if (config.shared_mlp.is_multiplied) layer.last_product = 0;
  if (config.experts && config.experts->gates_shared) {
    append_linear(layer, config.shared_mlp.module + std::string("_gate"), config.hidden_size, 1,
                  false, kMlpInput);
  }
}

LayerShape llama_layer(const ModelConfig& config, int64_t index) {
  const int64_t hidden = config.hidden_size;
  const LayerNormNames norms = norms_of(config);
  LayerShape layer;
  const auto norm = [&](const char* name) {
    if (name != nullptr) append_norm(layer, config, name, hidden);
  };
  norm(norms.before_attention);
  append_attention(layer, config, config.attention.window_of(index));
  norm(norms.behind_attention);
  norm(norms.before_mlp);
  if (config.has_experts(index)) {
    append_experts_apart(layer, config);
    append_shared_mlp(layer, config);
    return layer;
  }
  append_mlp(layer, config, config.mlp, config.intermediate_size, config.mlp_bias);
  norm(norms.behind_mlp);
  switch (config.layer_form) {
    case LayerForm::kNormsBefore:
    case LayerForm::kNormsBehind:
      layer.kept_values += hidden;  // the second norm's input
      break;
    case LayerForm::kNormsAround:
      layer.kept_values += 3 * hidden;  // of all but the first
      break;
    case LayerForm::kParallel:  // one norm, whose result both branches read
      layer.kept_values -= hidden;
      for (LinearShape& linear : layer.linears)
        if (linear.input == kMlpInput) linear.input = kMixerInput;
      break;
    case LayerForm::kParallelOfTwoNorms:  // of one input
      break;
  }
  if (norms.behind_mlp != nullptr) layer.last_product = 0;  // its norm needs it
  return layer;
}

ModelShape decoder_shape(const ModelConfig& config, const std::vector<LayerShape>& layers) {
  const ModelNames& names = family_of(config).names;
  const TensorShape table = {std::string(names.embedding) + ".weight",
                             {config.vocab_size, config.hidden_size}};
  ModelShape shape;
  shape.before.push_back(table);
  const auto count = static_cast<size_t>(config.num_hidden_layers);
  shape.layers = layers;
  if (layers.size() == 1) shape.layers.assign(count, layers.front());
  check(shape.layers.size() == count, "every layer has a shape");
  shape.after.push_back({std::string(names.final_norm) + ".weight", {config.hidden_size}});
  if (config.layer_norm && config.norm_bias)
    shape.after.push_back({std::string(names.final_norm) + ".bias", {config.hidden_size}});
  if (!config.tie_word_embeddings) {
    shape.after.push_back({std::string(names.output) + ".weight", table.sizes});
    shape.lookup_parameters = table.elements();
  }
  return shape;
}

}  // namespace sftbench
