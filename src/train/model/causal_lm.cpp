#include "sftbench/model/causal_lm.h"

#include "model/bloom.h"
#include "model/gpt_bigcode.h"
#include "model/llama.h"
#include "model/router_balance.h"
#include "model/vision_lm.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/families/family.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

// Label of position i is the token at i + 1; the last position has none.
torch::Tensor shift_left(const torch::Tensor& labels_BS) {
  torch::Tensor shifted = torch::full_like(labels_BS, ops::kIgnoredLabel);
  const int64_t S = labels_BS.size(1);
  shifted.narrow(1, 0, S - 1).copy_(labels_BS.narrow(1, 1, S - 1));
  return shifted;
}

// Virtual tokens have no label; the last of them predicts the first token.
torch::Tensor behind_virtual_tokens(const torch::Tensor& labels_BS, int64_t virtual_tokens) {
  if (virtual_tokens == 0) return labels_BS;
  const torch::Tensor none =
      torch::full({labels_BS.size(0), virtual_tokens}, ops::kIgnoredLabel, labels_BS.options());
  return torch::cat({none, labels_BS}, 1);
}

// Virtual tokens are no padding.
torch::Tensor behind_real_tokens(const torch::Tensor& mask_BS, const torch::Tensor& prompt) {
  if (!mask_BS.defined() || !prompt.defined()) return mask_BS;
  return torch::cat({torch::ones({mask_BS.size(0), prompt.size(0)}, mask_BS.options()), mask_BS},
                    1);
}

// `weight` with rows appended, each the mean of the old ones (taken in float32).
torch::Tensor with_mean_rows(const torch::Tensor& weight, int64_t rows) {
  const torch::Tensor mean =
      weight.to(torch::kFloat32).mean(0, /*keepdim=*/true).to(weight.scalar_type());
  torch::Tensor grown = torch::cat({weight, mean.expand({rows - weight.size(0), -1})});
  return grown.set_requires_grad(weight.requires_grad());
}

ops::LogitForm logit_form(const ModelConfig& config) {
  return {config.multipliers.logits, config.multipliers.logit_cap};
}

}  // namespace

CausalLm::CausalLm(ModelConfig config, const ops::KernelChoice& kernels)
    : config_(std::move(config)), kernels_(kernels) {
  if (!config_.experts || config_.experts->auxiliary_loss == 0) return;
  balance_ = std::make_unique<RouterBalance>(config_.num_hidden_layers, config_.experts->count,
                                             config_.experts->auxiliary_loss);
}

CausalLm::~CausalLm() = default;

const ModelNames& CausalLm::names() const {
  return family_of(config_).names;
}

torch::Tensor CausalLm::loss(const TokenRows& rows, const torch::Tensor& labels,
                             const ops::LossDenominator& denominator, LayerRunner& runner) {
  ++pass_.number;
  pass_.training = true;
  const LossParts parts = loss_parts(rows, labels, denominator, runner);
  return parts.auxiliary.defined() ? parts.cross_entropy + parts.auxiliary : parts.cross_entropy;
}

LossParts CausalLm::evaluate(const TokenRows& rows, const torch::Tensor& labels,
                             LayerRunner& runner) {
  const torch::NoGradGuard no_grad;
  pass_.training = false;
  return loss_parts(rows, labels, /*denominator=*/1, runner);
}

LossParts CausalLm::loss_parts(const TokenRows& rows, const torch::Tensor& labels,
                               const ops::LossDenominator& denominator, LayerRunner& runner) {
  if (balance_) balance_->begin(behind_real_tokens(rows.mask, prompt()), rows.part.get());
  const torch::Tensor hidden_BSH = hidden_states(rows, runner);
  const torch::Tensor labels_BS =
      behind_virtual_tokens(labels, hidden_BSH.size(1) - labels.size(1));
  torch::Tensor hidden = hidden_BSH.flatten(0, 1);
  torch::Tensor weight = output_weight();
  if (compute_dtype_) {
    hidden = hidden.to(*compute_dtype_);
    weight = weight.to(*compute_dtype_);
  }
  ops::LogitAddend addend;
  if (output_adapter_) {
    const OutputAdapter::Product product = output_adapter_->product(hidden);
    addend = {product.hidden, product.weight};
  }
  LossParts parts;
  parts.cross_entropy = kernels_.linear_cross_entropy(
      hidden, weight, (rows.part ? labels_BS : shift_left(labels_BS)).flatten(),
      logit_form(config_), denominator, addend);
  if (balance_) parts.auxiliary = balance_->loss(hidden_BSH);
  return parts;
}

torch::Tensor CausalLm::logits(const TokenRows& rows) {
  pass_.training = false;
  if (balance_) balance_->begin({}, nullptr);
  LayerRunner runner;
  return logits_of(hidden_states(rows, runner));
}

torch::Tensor CausalLm::likeliest_next(const TokenRows& rows, LayerRunner& runner) {
  const torch::NoGradGuard no_grad;
  pass_.training = false;
  if (balance_) balance_->begin({}, nullptr);
  return logits_of(hidden_states(rows, runner).slice(1, -1)).argmax(-1).squeeze(1);
}

torch::Tensor CausalLm::logits_of(torch::Tensor hidden) const {
  torch::Tensor weight = output_weight();
  if (compute_dtype_) {
    hidden = hidden.to(*compute_dtype_);
    weight = weight.to(*compute_dtype_);
  }
  torch::Tensor logits = ops::linear(hidden, weight);
  if (output_adapter_) {
    const OutputAdapter::Product product = output_adapter_->product(hidden.flatten(0, -2));
    logits = logits + ops::linear(product.hidden, product.weight).view_as(logits);
  }
  return logit_form(config_).of(logits);
}

std::vector<NamedLinear> CausalLm::linears() {
  std::vector<NamedLinear> linears;
  for (const NamedLinearGroup& group : linear_groups())
    linears.insert(linears.end(), group.linears.begin(), group.linears.end());
  return linears;
}

void CausalLm::set_compute_dtype(torch::Dtype dtype) {
  compute_dtype_ = dtype;
  for (const NamedLinear& linear : linears()) (*linear.slot)->set_compute_dtype(dtype);
  follow_compute_dtype(dtype);
}

void CausalLm::compute_in(torch::Dtype dtype) {
  set_compute_dtype(dtype);
  stream_dtype_ = dtype;
}

torch::Tensor CausalLm::to_stream_dtype(const torch::Tensor& rows) const {
  return stream_dtype_ ? rows.to(*stream_dtype_) : rows;
}

void CausalLm::tile_mlps(int64_t tiles) {
  if (tiles > 1 && config_.experts) {
    throw RunError(ReasonCode::kUnsupported,
                   "mlp_tiles " + std::to_string(tiles) +
                       ": a mixture of experts sorts all positions; mlp_tiles 1 works");
  }
  pass_.mlp_tiles = tiles;
}

void CausalLm::multiply_in_fp8() {
  set_compute_dtype(torch::kBFloat16);
  for (const NamedLinear& linear : linears()) (*linear.slot)->multiply_in_fp8(linear.name);
}

std::unique_ptr<CausalLm> make_causal_lm(const Json& hf_config, torch::Dtype dtype,
                                         torch::Device device, const ops::KernelChoice& kernels) {
  const ModelConfig config = parse_model_config(hf_config);
  const auto options = torch::TensorOptions().dtype(dtype).device(device);
  switch (family_of(config).model_class) {
    case ModelClass::kBloom:
      return std::make_unique<Bloom>(config, kernels, options);
    case ModelClass::kGptBigCode:
      return std::make_unique<GptBigCode>(config, kernels, options);
    case ModelClass::kVision:
      return std::make_unique<VisionLm>(config, kernels, options);
    case ModelClass::kLlama:
      break;
  }
  return std::make_unique<Llama>(config, kernels, options);
}

void resize_vocabulary(CausalLm& model, int64_t vocabulary_size) {
  const torch::NoGradGuard no_grad;
  const std::string output = std::string(model.names().output) + ".weight";
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.tensor != &model.embedding() && parameter.name != output) continue;
    if (parameter.tensor->size(0) >= vocabulary_size) continue;
    *parameter.tensor = with_mean_rows(*parameter.tensor, vocabulary_size);
  }
}

}  // namespace sftbench
