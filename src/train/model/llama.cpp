#include "model/llama.h"

#include "model/experts.h"
#include "model/mamba.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/dropout.h"
#include "sftbench/ops/rms_norm.h"
#include "sftbench/ops/row_tiles.h"

namespace sftbench {
namespace {

constexpr uint64_t kBranches = 2;  // of a layer

}  // namespace

Llama::Llama(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Decoder(config, kernels, options), norm_(config.hidden_size, config, kernels, options) {
  if (config.rotary) rotary_emb_.emplace(config.rope, config.max_position_embeddings);
  if (config.local_rope)
    local_rotary_emb_.emplace(*config.local_rope, config.max_position_embeddings);
  const LayerNormNames names = norms_of(config);
  const auto norm = [&](const char* name) {
    return name == nullptr ? std::optional<Norm>()
                           : Norm(config.hidden_size, config, kernels, options);
  };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back({norm(names.before_attention), make_mixer(i, options),
                       norm(names.behind_attention), norm(names.before_mlp), make_mlp(i, options),
                       norm(names.behind_mlp)});
  }
}

std::unique_ptr<Mixer> Llama::make_mixer(int64_t layer, torch::TensorOptions options) {
  if (config().is_mamba(layer)) return std::make_unique<Mamba>(config(), kernels(), options);
  return std::make_unique<SelfAttention>(config(), layer, kernels(), pass(), options);
}

std::unique_ptr<Mlp> Llama::make_mlp(int64_t layer, torch::TensorOptions options) {
  const ModelConfig& config = this->config();
  if (config.has_experts(layer))
    return std::make_unique<Experts>(config, layer, balance(), options);
  const int64_t shared = config.experts ? 0 : config.shared_intermediate_size;
  if (shared > 0) return std::make_unique<DenseMlp>(config, kSharedMlp, shared, false, options);
  return std::make_unique<DenseMlp>(config, config.mlp, config.intermediate_size, config.mlp_bias,
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
  std::vector<torch::Tensor> tables;
  for (const auto* embedding : {&rotary_emb_, &local_rotary_emb_}) {
    if (!*embedding) continue;
    tables.push_back((*embedding)->kept().cos);
    tables.push_back((*embedding)->kept().sin);
  }
  return tables;
}

RotaryTables Llama::positions(const torch::Tensor& x_BSH, const TokenRows& rows) {
  if (!rotary_emb_) return Decoder::positions(x_BSH, rows);
  const int64_t length = rows.row_length(x_BSH.size(1)), before = rows.positions_before();
  RotaryTables tables =
      rotary_emb_->tables(length, x_BSH.options(), rows.packed, rows.part, before);
  if (local_rotary_emb_) {
    const RotaryTables local =
        local_rotary_emb_->tables(length, x_BSH.options(), rows.packed, rows.part, before);
    tables.local_cos = local.cos;
    tables.local_sin = local.sin;
  }
  return tables;
}

torch::Tensor Llama::dropped(const torch::Tensor& branch, int64_t index, uint64_t number) const {
  const uint64_t place = kFirstBranchPlace + static_cast<uint64_t>(index) * kBranches + number;
  return ops::dropout(branch, dropout_at(config().residual_dropout, place, pass()));
}

torch::Tensor Llama::run_layer(int64_t index, const torch::Tensor& x,
                               const RotaryTables& positions) const {
  const Layer& layer = this->layer(index);
  if (config().layer_form == LayerForm::kParallel ||
      config().layer_form == LayerForm::kParallelOfTwoNorms)
    return run_branches_in_parallel(index, x, positions);
  const double residual = config().multipliers.residual;
  const auto normed = [](const std::optional<Norm>& norm, const torch::Tensor& branch) {
    return norm ? norm->forward(branch) : branch;
  };
  ops::NormedSum at =
      layer.before_attention ? layer.before_attention->forward_sum(x) : ops::NormedSum{x, x};
  at.normed =
      dropped(normed(layer.behind_attention, layer.mixer->forward(at.normed, positions)), index, 0);
  if (layer.before_mlp) {
    at = layer.before_mlp->forward_sum(at.sum, at.normed, residual);
  } else {
    at.sum = at.normed = at.sum.add(at.normed, residual);
  }
  at.normed = ops::in_row_tiles(pass().mlp_tiles, at.normed, [&](const torch::Tensor& rows) {
    return normed(layer.behind_mlp, layer.mlp->forward(rows));
  });
  return at.sum.add(dropped(at.normed, index, 1), residual);  // x + a y in one pass over memory
}

torch::Tensor Llama::run_branches_in_parallel(int64_t index, const torch::Tensor& x,
                                              const RotaryTables& positions) const {
  const Layer& layer = this->layer(index);
  const torch::Tensor normed = layer.before_attention->forward(x);
  const torch::Tensor mixed = dropped(layer.mixer->forward(normed, positions), index, 0);
  const torch::Tensor inner =
      ops::in_row_tiles(pass().mlp_tiles, layer.before_mlp ? layer.before_mlp->forward(x) : normed,
                        [&layer](const torch::Tensor& rows) { return layer.mlp->forward(rows); });
  return x + mixed + dropped(inner, index, 1);
}

void Llama::append_layer_parameters(int64_t index, const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  Layer& layer = this->layer(index);
  const LayerNormNames names = norms_of(config());
  const auto append = [&](std::optional<Norm>& norm, const char* leaf) {
    if (norm) norm->append_parameters(name + "." + leaf, parameters);
  };
  append(layer.before_attention, names.before_attention);
  layer.mixer->append_parameters(name, parameters);
  append(layer.behind_attention, names.behind_attention);
  append(layer.before_mlp, names.before_mlp);
  layer.mlp->append_parameters(name, parameters);
  append(layer.behind_mlp, names.behind_mlp);
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
