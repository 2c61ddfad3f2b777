// Shapes: B batch, S sequence, H hidden, I intermediate, E experts, k experts of a position, T = B
// S.
#include "model/experts.h"

#include <utility>

#include "model/expert_exchange.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench {

using torch::Tensor;

Experts::Experts(const ModelConfig& config, int64_t layer, RouterBalance* balance,
                 torch::TensorOptions options)
    : config_(*config.experts),
      layer_(layer),
      balance_(balance),
      router_(torch::empty({config_.count, config.hidden_size}, options)),
      choices_(static_cast<size_t>(config_.count)) {
  const int64_t E = config_.count, H = config.hidden_size, I = config_.width;
  if (config_.storage == ExpertStorage::kStacked) {
    input_ = torch::empty({E, 2 * I, H}, options);
    output_ = torch::empty({E, H, I}, options);
  } else if (config_.storage == ExpertStorage::kTransposed) {
    router_bias_ = torch::empty({E}, options);
    input_ = torch::empty({E, H, 2 * I}, options);
    input_bias_ = torch::empty({E, 2 * I}, options);
    output_ = torch::empty({E, I, H}, options);
    output_bias_ = torch::empty({E, H}, options);
  } else if (config.gptq || config.nf4) {
    const ExpertNames& names = config_.names;
    for (int64_t e = 0; e < E; ++e) {
      quantized_in_.push_back(
          make_linear_group(H, {{names.gate, I}, {names.up, I}}, /*bias=*/false, config, options));
      quantized_out_.push_back(
          make_linear_group(I, {{names.down, H}}, /*bias=*/false, config, options));
    }
  } else {
    for (int64_t e = 0; e < E; ++e) {
      gate_.push_back(torch::empty({I, H}, options));
      up_.push_back(torch::empty({I, H}, options));
      down_.push_back(torch::empty({H, I}, options));
    }
  }
  if (config.shared_intermediate_size == 0) return;
  shared_.emplace(config, config.shared_mlp, config.shared_intermediate_size, /*bias=*/false,
                  options);
  if (config_.gates_shared) {
    shared_gate_ = make_linear_group(config.hidden_size, {{"shared_expert_gate", 1}},
                                     /*bias=*/false, config, options);
  }
}

std::vector<Tensor> Experts::cast(const std::vector<Tensor>& weights) const {
  if (!compute_dtype_) return weights;
  std::vector<Tensor> cast;
  for (const Tensor& weight : weights) cast.push_back(weight.to(*compute_dtype_));
  return cast;
}

Experts::Choice Experts::route(const Tensor& x_TH) const {
  const torch::Dtype dtype = compute_dtype_.value_or(x_TH.scalar_type());
  const torch::Dtype wide = torch::promote_types(dtype, torch::kFloat32);
  const Tensor bias = router_bias_.defined() ? router_bias_.to(dtype) : router_bias_;
  Tensor logits_TE = ops::linear(x_TH.to(dtype), router_.to(dtype), bias);
  // The balance's probabilities are of the dtype that Hugging Face's are.
  if (config_.storage == ExpertStorage::kStacked) logits_TE = logits_TE.to(wide);
  const Tensor choices = std::get<1>(logits_TE.detach().topk(config_.per_token, -1));
  if (balance_ != nullptr) logits_TE = balance_->watch(layer_, logits_TE, choices);
  logits_TE = logits_TE.to(wide);
  if (config_.softmax_over_all) {
    Tensor chosen = torch::softmax(logits_TE, -1).gather(-1, choices);
    if (config_.scales_chosen) chosen = chosen / chosen.sum(-1, /*keepdim=*/true);
    return {choices, config_.float32_weights ? chosen : chosen.to(dtype).to(x_TH.scalar_type())};
  }
  return {choices, torch::softmax(logits_TE.gather(-1, choices), -1).to(x_TH.scalar_type())};
}

// GptOssExperts._apply_gate: gate and up alternate.
Tensor Experts::clamped(const Tensor& gate_and_up) const {
  const Tensor pairs = gate_and_up.unflatten(-1, {-1, 2});
  const Tensor gate = pairs.select(-1, 0).clamp_max(config_.limit);
  const Tensor up = pairs.select(-1, 1).clamp(-config_.limit, config_.limit);
  return (up + 1) * (gate * torch::sigmoid(gate * config_.alpha));
}

// Expert by expert: each dequantizes its matrices while it multiplies.
Tensor Experts::through_quantized(const Tensor& x, const std::vector<int64_t>& offsets) const {
  const auto first = static_cast<size_t>(first_here(quantized_in_.size()));
  std::vector<Tensor> results;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    const int64_t rows = offsets[e + 1] - offsets[e];
    if (rows == 0) continue;
    const std::vector<Tensor> halves =
        quantized_in_[first + e].forward(x.narrow(0, offsets[e], rows));
    results.push_back(quantized_out_[first + e].forward(ops::swiglu(halves[0], halves[1]))[0]);
  }
  return results.empty() ? x : torch::cat(results);
}

Tensor Experts::through_experts(const Tensor& x, const std::vector<int64_t>& offsets) const {
  if (!quantized_in_.empty()) return through_quantized(x, offsets);
  if (config_.storage == ExpertStorage::kApart) {
    const Tensor inner = ops::swiglu(ops::grouped_linear(x, cast(here(gate_)), offsets),
                                     ops::grouped_linear(x, cast(here(up_)), offsets));
    return ops::grouped_linear(inner, cast(here(down_)), offsets);
  }
  if (config_.storage == ExpertStorage::kTransposed) {
    const torch::Dtype dtype = x.scalar_type();
    constexpr auto kLayout = ops::ExpertLayout::kInOut;
    const Tensor inner =
        clamped(ops::grouped_linear(x, cast({input_})[0], offsets, input_bias_.to(dtype), kLayout));
    return ops::grouped_linear(inner, cast({output_})[0], offsets, output_bias_.to(dtype), kLayout);
  }
  const Tensor inner = ops::swiglu(ops::grouped_linear(x, cast({input_})[0], offsets));
  return ops::grouped_linear(inner, cast({output_})[0], offsets);
}

Tensor Experts::forward(const Tensor& x_BSH) const {
  const Tensor x_TH = x_BSH.flatten(0, 1);
  const Choice choice = route(x_TH);
  const ops::Routes routes = ops::sort_by_expert(choice.experts, config_.count);
  if (!ops::recomputing()) count(routes.offsets);
  const Tensor gathered =
      ops::gather_rows(compute_dtype_ ? x_TH.to(*compute_dtype_) : x_TH, routes);
  Tensor shared;
  const auto go_through_shared = [&] {
    if (shared_) shared = shared_->forward(x_BSH);
    if (shared_gate_) shared = torch::sigmoid(shared_gate_->forward(x_BSH)[0]) * shared;
  };
  const Tensor results = through_experts_of_all(gathered, routes.offsets, go_through_shared);
  // Under autocast Hugging Face adds the experts' results up in the residual stream's dtype.
  Tensor y =
      ops::combine_rows(results.to(x_TH.scalar_type()), choice.weights, routes).view_as(x_BSH);
  return shared_ ? y + shared : y;
}

void Experts::count(const std::vector<int64_t>& offsets) const {
  for (size_t e = 0; e < choices_.size(); ++e) choices_[e] += offsets[e + 1] - offsets[e];
}

std::vector<int64_t> Experts::take_expert_choices() {
  return std::exchange(choices_, std::vector<int64_t>(choices_.size()));
}

// `meanwhile` runs while rows are on their way to the experts of other ranks.
Tensor Experts::through_experts_of_all(const Tensor& rows, const std::vector<int64_t>& offsets,
                                       const std::function<void()>& meanwhile) const {
  if (group_ == nullptr) {
    Tensor results = through_experts(rows, offsets);
    meanwhile();
    return results;
  }
  const ExpertExchange exchange(*group_, offsets);
  const Tensor here = exchange.scatter(rows, meanwhile);
  return exchange.gather(through_experts(here, exchange.own_offsets()));
}

int64_t Experts::first_here(size_t all) const {
  return group_ == nullptr ? 0 : static_cast<int64_t>(all) / group_->size() * group_->rank();
}

std::vector<Tensor> Experts::here(const std::vector<Tensor>& all) const {
  if (group_ == nullptr) return all;
  const auto first = all.begin() + first_here(all.size());
  return {first, first + static_cast<int64_t>(all.size()) / group_->size()};
}

std::string Experts::expert_name(const std::string& layer, size_t expert) const {
  return layer + "." + config_.names.module + ".experts." + std::to_string(expert);
}

void Experts::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  for (size_t e = 0; e < quantized_in_.size(); ++e) {
    for (LinearGroup* group : {&quantized_in_[e], &quantized_out_[e]})
      groups.push_back({group, group->named_linears(expert_name(name, e)), false});
  }
  if (shared_) shared_->append_groups(name, groups);
  if (shared_gate_) groups.push_back({&*shared_gate_, shared_gate_->named_linears(name + ".mlp")});
}

void Experts::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  // Counted for all experts, wherever they are.
  const auto stacked = [&](const std::string& of, Tensor& tensor,
                           ParameterStart start = ParameterStart::kNormal) {
    const int64_t one = tensor.numel() / tensor.size(0);
    parameters.push_back({.name = of,
                          .tensor = &tensor,
                          .start = start,
                          .weights = config_.count * one,
                          .experts = config_.count});
  };
  if (config_.storage == ExpertStorage::kTransposed) {
    const std::string experts = name + ".mlp.experts.";
    parameters.push_back({name + ".mlp.router.weight", &router_});
    parameters.push_back({name + ".mlp.router.bias", &router_bias_});
    stacked(experts + "gate_up_proj", input_);
    stacked(experts + "gate_up_proj_bias", input_bias_, ParameterStart::kZeros);
    stacked(experts + "down_proj", output_);
    stacked(experts + "down_proj_bias", output_bias_, ParameterStart::kZeros);
    return;
  }
  const ExpertNames& names = config_.names;
  const std::string block = name + "." + names.module;
  if (config_.storage == ExpertStorage::kStacked) {
    parameters.push_back({block + ".router.layer.weight", &router_});
    stacked(block + ".input_linear.weight", input_);
    stacked(block + ".output_linear.weight", output_);
  } else {
    parameters.push_back({block + ".gate.weight", &router_});
    for (size_t e = 0; e < quantized_in_.size(); ++e) {
      const size_t first = parameters.size();
      for (LinearGroup* group : {&quantized_in_[e], &quantized_out_[e]})
        group->append_parameters(expert_name(name, e), parameters);
      for (size_t i = first; i < parameters.size(); ++i) {
        parameters[i].first_expert = static_cast<int64_t>(e);
        parameters[i].experts = 1;
      }
    }
    for (size_t e = 0; e < gate_.size(); ++e) {
      const std::string expert = expert_name(name, e);
      const auto apart = [&](const char* matrix, Tensor& tensor) {
        parameters.push_back({.name = expert + "." + matrix + ".weight",
                              .tensor = &tensor,
                              .first_expert = static_cast<int64_t>(e),
                              .experts = 1});
      };
      apart(names.gate, gate_[e]);
      apart(names.up, up_[e]);
      apart(names.down, down_[e]);
    }
  }
  if (shared_) shared_->append_parameters(name, parameters);
  if (shared_gate_) shared_gate_->append_parameters(name + ".mlp", parameters);
}

}  // namespace sftbench
