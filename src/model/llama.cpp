#include "model/llama.h"

#include "model/experts.h"
#include "model/mamba.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/rms_norm.h"
#include "sftbench/ops/row_tiles.h"

namespace sftbench {
namespace {

ExpertStorage expert_storage(ModelFamily family) {
  if (family == ModelFamily::kMixtral) return ExpertStorage::kApart;
  return family == ModelFamily::kGptOss ? ExpertStorage::kTransposed : ExpertStorage::kStacked;
}

}  // namespace

Llama::Llama(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Decoder(config, kernels, options),
      norm_(config.hidden_size, config.norm_eps, kernels, options, config.norm_rounds_last) {
  if (config.rotary) rotary_emb_.emplace(config);
  const auto norm = [&] {
    return RmsNorm(config.hidden_size, config.norm_eps, kernels, options, config.norm_rounds_last);
  };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back({norm(), make_mixer(i, options), norm(), make_mlp(i, options)});
  }
}

std::unique_ptr<Mixer> Llama::make_mixer(int64_t layer, torch::TensorOptions options) {
  if (config().is_mamba(layer)) return std::make_unique<Mamba>(config(), kernels(), options);
  return std::make_unique<SelfAttention>(config(), layer, kernels(), pass(), options);
}

std::unique_ptr<Mlp> Llama::make_mlp(int64_t layer, torch::TensorOptions options) {
  if (!config().experts) {
    if (config().shared_intermediate_size == 0)
      return std::make_unique<GatedMlp>(config(), options);
    return std::make_unique<SharedMlp>(config(), options);
  }
  return std::make_unique<Experts>(config(), expert_storage(config().family), layer, balance(),
                                   options);
}

void Llama::follow_compute_dtype(torch::Dtype dtype) {
  for (Layer& layer : layers_) layer.mlp->set_compute_dtype(dtype);
}

void Llama::divide_experts(ExpertGroup& group) {
  for (Layer& layer : layers_) layer.mlp->divide_experts(group);
}

std::vector<int64_t> Llama::take_expert_choices() {
  std::vector<int64_t> choices;
  for (Layer& layer : layers_) {
    const std::vector<int64_t> of_layer = layer.mlp->take_expert_choices();
    choices.insert(choices.end(), of_layer.begin(), of_layer.end());
  }
  return choices;
}

std::vector<torch::Tensor> Llama::kept_tables() const {
  if (!rotary_emb_) return {};
  return {rotary_emb_->kept().cos, rotary_emb_->kept().sin};
}

RotaryTables Llama::positions(const torch::Tensor& x_BSH, const TokenRows& rows) {
  if (!rotary_emb_) return Decoder::positions(x_BSH, rows);
  const int64_t length = rows.part ? rows.row_length() : x_BSH.size(1);
  return rotary_emb_->tables(length, x_BSH.options(), rows.packed, rows.part);
}

torch::Tensor Llama::run_layer(int64_t index, const torch::Tensor& x,
                               const RotaryTables& positions) const {
  const Layer& layer = this->layer(index);
  const double residual = config().multipliers.residual;
  ops::NormedSum at = layer.input_layernorm.forward_sum(x);
  at.normed = layer.mixer->forward(at.normed, positions);
  at = layer.post_attention_layernorm.forward_sum(at.sum, at.normed, residual);
  at.normed = ops::in_row_tiles(pass().mlp_tiles, at.normed, [&layer](const torch::Tensor& rows) {
    return layer.mlp->forward(rows);
  });
  return at.sum.add(at.normed, residual);  // x + a y in one pass over memory
}

void Llama::append_layer_parameters(int64_t index, const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  Layer& layer = this->layer(index);
  layer.input_layernorm.append_parameters(name + ".input_layernorm", parameters);
  layer.mixer->append_parameters(name, parameters);
  layer.post_attention_layernorm.append_parameters(name + ".post_attention_layernorm", parameters);
  layer.mlp->append_parameters(name, parameters);
}

void Llama::append_layer_groups(int64_t index, const std::string& name,
                                std::vector<NamedLinearGroup>& groups) {
  layer(index).mixer->append_groups(name, groups);
  layer(index).mlp->append_groups(name, groups);
}

void Llama::append_norm_parameters(const std::string& name,
                                   std::vector<NamedParameter>& parameters) {
  norm_.append_parameters(name, parameters);
}

}  // namespace sftbench
