#include "model/gpt.h"

#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/row_tiles.h"

namespace sftbench {
namespace {

// Places of a layer that draw a dropout of their own.
enum Place : uint64_t { kAttention, kFirstBranch, kSecondBranch, kPlaces };

void append(LinearGroup& group, const std::string& name, ParameterStart weight,
            std::vector<NamedParameter>& parameters) {
  const size_t first = parameters.size();
  group.append_parameters(name, parameters);
  for (size_t i = first; i < parameters.size(); ++i) {
    if (parameters[i].start == ParameterStart::kNormal) parameters[i].start = weight;
  }
}

}  // namespace

Gpt::Gpt(const ModelConfig& config, const GptNames& names, ParameterStart output_start,
         const ops::KernelChoice& kernels, torch::TensorOptions options)
    : Decoder(config, kernels, options),
      layer_names_(names),
      output_start_(output_start),
      norm_(config.hidden_size, config.norm_eps, options) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t qkv = config.attention.query_width() + 2 * config.attention.key_value_width();
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return make_linear_group(in, {{name, out}}, /*bias=*/true, config, options);
  };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back({LayerNorm(hidden, config.norm_eps, options), linear(names.qkv, hidden, qkv),
                       linear(names.attention_output, hidden, hidden),
                       LayerNorm(hidden, config.norm_eps, options),
                       linear(names.mlp_input, hidden, inner),
                       linear(names.mlp_output, inner, hidden)});
  }
}

ops::Dropout Gpt::residual_dropout(int64_t layer, uint64_t branch) const {
  const uint64_t place = static_cast<uint64_t>(layer) * kPlaces + branch;
  return dropout_at(config().residual_dropout, place, pass());
}

torch::Tensor Gpt::run_layer(int64_t index, const torch::Tensor& x,
                             const RotaryTables& positions) const {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const bool behind_norm = config().residual_behind_norm;
  const uint64_t attention_place = static_cast<uint64_t>(index) * kPlaces + kAttention;

  const torch::Tensor normed = layer.first_norm.forward(x);
  const torch::Tensor mixed =
      attend(layer.qkv.forward(normed)[0], positions,
             dropout_at(config().attention.dropout, attention_place, pass()));
  const torch::Tensor h = ops::dropout(layer.attention_output.forward(mixed)[0],
                                       residual_dropout(index, kFirstBranch)) +
                          (behind_norm ? normed : x);

  const torch::Tensor normed_h = layer.second_norm.forward(h);
  const auto mlp = [this, &layer](const torch::Tensor& rows) {
    const torch::Tensor inner = activated(layer.mlp_input.forward(rows)[0], config().activation);
    const ops::LastProduct of_the_layer;
    return layer.mlp_output.forward(inner)[0];
  };
  const torch::Tensor out = ops::in_row_tiles(pass().mlp_tiles, normed_h, mlp);
  return ops::dropout(out, residual_dropout(index, kSecondBranch)) + (behind_norm ? normed_h : h);
}

void Gpt::append_layer_parameters(int64_t index, const std::string& name,
                                  std::vector<NamedParameter>& parameters) {
  Layer& layer = layers_[static_cast<size_t>(index)];
  const std::string attention = name + "." + layer_names_.attention, mlp = name + ".mlp";
  layer.first_norm.append_parameters(name + "." + layer_names_.first_norm, parameters);
  layer.qkv.append_parameters(attention, parameters);
  append(layer.attention_output, attention, output_start_, parameters);
  layer.second_norm.append_parameters(name + "." + layer_names_.second_norm, parameters);
  layer.mlp_input.append_parameters(mlp, parameters);
  append(layer.mlp_output, mlp, output_start_, parameters);
}

void Gpt::append_layer_groups(int64_t index, const std::string& name,
                              std::vector<NamedLinearGroup>& groups) {
  Layer& layer = layers_[static_cast<size_t>(index)];
  const std::string attention = name + "." + layer_names_.attention, mlp = name + ".mlp";
  groups.push_back({&layer.qkv, layer.qkv.named_linears(attention)});
  groups.push_back({&layer.attention_output, layer.attention_output.named_linears(attention)});
  groups.push_back({&layer.mlp_input, layer.mlp_input.named_linears(mlp)});
  groups.push_back({&layer.mlp_output, layer.mlp_output.named_linears(mlp)});
}

void Gpt::append_norm_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  norm_.append_parameters(name, parameters);
}

}  // namespace sftbench
