#include "model/layers.h"

#include "model/gptq_linear.h"
#include "model/nf4_linear.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/fp8_linear.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench {

DenseLinear::DenseLinear(int64_t in_features, int64_t out_features, bool bias,
                         torch::TensorOptions options, bool transposed)
    : weight_(transposed ? torch::empty({in_features, out_features}, options)
                         : torch::empty({out_features, in_features}, options)),
      bias_(bias ? torch::empty({out_features}, options) : torch::Tensor()),
      transposed_(transposed) {}

torch::Tensor DenseLinear::forward(const torch::Tensor& x) {
  if (in_fp8_ && compute_dtype_) return ops::fp8_linear(x.to(*compute_dtype_), weight_, bias_);
  const auto [weight, bias] = operands();
  const torch::Tensor input = compute_dtype_ ? x.to(*compute_dtype_) : x;
  return transposed_ ? ops::transposed_linear(input, weight, bias)
                     : ops::linear(input, weight, bias);
}

// In the dtype that is computed in.
ops::LinearOperands DenseLinear::operands() const {
  if (!compute_dtype_) return {weight_, bias_};
  const torch::Dtype dtype = *compute_dtype_;
  return {weight_.to(dtype), bias_.defined() ? bias_.to(dtype) : bias_};
}

torch::Tensor DenseLinear::dense_rows(int64_t first, int64_t count) const {
  const torch::Tensor weight = weight_.detach();
  return transposed_ ? weight.narrow(1, first, count).t() : weight.narrow(0, first, count);
}

void DenseLinear::multiply_in_fp8(const std::string& name) {
  if (transposed_) return Linear::multiply_in_fp8(name);
  if (in_features() % ops::kFp8Multiple != 0 || out_features() % ops::kFp8Multiple != 0) {
    throw RunError(ReasonCode::kUnsupported, name + " maps " + std::to_string(in_features()) +
                                                 " to " + std::to_string(out_features()) +
                                                 " features; float8 products need multiples of " +
                                                 std::to_string(ops::kFp8Multiple) +
                                                 ", mixed precision bf16 does not");
  }
  in_fp8_ = true;
}

void DenseLinear::append_parameters(const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  parameters.push_back({name + ".weight", &weight_});
  if (bias_.defined()) parameters.push_back({name + ".bias", &bias_, ParameterStart::kZeros});
}

Norm::Norm(int64_t width, const ModelConfig& config, const ops::KernelChoice& kernels,
           torch::TensorOptions options)
    : weight_(torch::empty({width}, options)),
      epsilon_(config.norm_eps),
      subtracts_mean_(config.layer_norm),
      rounds_last_(config.norm_rounds_last),
      from_one_(config.norm_from_one),
      rms_norm_(kernels.rms_norm),
      add_rms_norm_(kernels.add_rms_norm) {
  if (config.layer_norm && config.norm_bias) bias_ = torch::empty({width}, options);
}

torch::Tensor Norm::factor(torch::Dtype dtype) const {
  if (rounds_last_ && !subtracts_mean_) dtype = torch::promote_types(dtype, torch::kFloat32);
  return from_one_ ? weight_.to(dtype) + 1 : weight_.to(dtype);
}

torch::Tensor Norm::forward(const torch::Tensor& x) const {
  const torch::Tensor weight = factor(x.scalar_type());
  if (!subtracts_mean_) return rms_norm_(x, weight, epsilon_);
  const torch::Tensor bias =
      bias_.defined() ? bias_.to(x.scalar_type()) : torch::zeros_like(weight);
  return ops::layer_norm(x, weight, bias, epsilon_);
}

ops::NormedSum Norm::forward_sum(const torch::Tensor& x, const torch::Tensor& addend,
                                 double scale) const {
  // Under autocast a branch may be narrower than the stream.
  if (addend.defined() && addend.scalar_type() != x.scalar_type())
    return forward_sum(x.add(addend, scale));
  if (!subtracts_mean_) return add_rms_norm_(x, addend, scale, factor(x.scalar_type()), epsilon_);
  const torch::Tensor sum = addend.defined() ? x.add(addend, scale) : x;
  return {sum, forward(sum)};
}

void Norm::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  parameters.push_back({.name = name + ".weight",
                        .tensor = &weight_,
                        .start = from_one_ ? ParameterStart::kZeros : ParameterStart::kOnes,
                        .of_layer_norm = subtracts_mean_});
  if (!bias_.defined()) return;
  parameters.push_back({.name = name + ".bias",
                        .tensor = &bias_,
                        .start = ParameterStart::kZeros,
                        .of_layer_norm = true});
}

LayerNorm::LayerNorm(int64_t hidden_size, double epsilon, torch::TensorOptions options)
    : weight_(torch::empty({hidden_size}, options)),
      bias_(torch::empty({hidden_size}, options)),
      epsilon_(epsilon) {}

torch::Tensor LayerNorm::forward(const torch::Tensor& x) const {
  return ops::layer_norm(x, weight_.to(x.scalar_type()), bias_.to(x.scalar_type()), epsilon_);
}

void LayerNorm::append_parameters(const std::string& name,
                                  std::vector<NamedParameter>& parameters) {
  parameters.push_back({.name = name + ".weight",
                        .tensor = &weight_,
                        .start = ParameterStart::kOnes,
                        .of_layer_norm = true});
  parameters.push_back({.name = name + ".bias",
                        .tensor = &bias_,
                        .start = ParameterStart::kZeros,
                        .of_layer_norm = true});
}

ops::Dropout dropout_at(double probability, uint64_t place, const ForwardPass& pass) {
  if (!pass.training || probability == 0) return {};
  const uint64_t of_place = ops::derived_seed(pass.seed, place);
  return {probability, ops::derived_seed(of_place, static_cast<uint64_t>(pass.number))};
}

TokenEmbedding::TokenEmbedding(int64_t vocab_size, int64_t hidden_size,
                               std::optional<int64_t> padding_row, torch::TensorOptions options)
    : weight_(torch::empty({vocab_size, hidden_size}, options)), padding_row_(padding_row) {}

torch::Tensor TokenEmbedding::forward(const torch::Tensor& ids) const {
  const torch::Tensor rows = ops::embedding(ids, weight_);
  if (!padding_row_ || !weight_.requires_grad()) return rows;
  return torch::where((ids == *padding_row_).unsqueeze(-1), rows.detach(), rows);
}

void TokenEmbedding::append_parameters(const std::string& name,
                                       std::vector<NamedParameter>& parameters) {
  parameters.push_back({name + ".weight", &weight_});
}

namespace {

std::vector<LinearOutput> mlp_inputs(const MlpConfig& mlp, int64_t width) {
  switch (mlp.form) {
    case MlpForm::kGated:
      return {{"gate_proj", width}, {"up_proj", width}};
    case MlpForm::kGatedInOne:
      return {{mlp.input, 2 * width}};
    case MlpForm::kPlain:
      return {{mlp.input, width}};
  }
  return {};
}

}  // namespace

DenseMlp::DenseMlp(const ModelConfig& config, const MlpConfig& mlp, int64_t width, bool bias,
                   torch::TensorOptions options)
    : form_(mlp.form),
      activation_(config.activation),
      ends_layer_(norms_of(config).behind_mlp == nullptr && !mlp.is_multiplied),
      module_(std::string(".") + mlp.module),
      input_(make_linear_group(config.hidden_size, mlp_inputs(mlp, width), bias, config, options)),
      output_(make_linear_group(width, {{mlp.output, config.hidden_size}}, bias, config, options)) {
}

namespace {

ops::Gelu gelu_form(Activation activation) {
  return activation == Activation::kGelu ? ops::Gelu::kError : ops::Gelu::kTanh;
}

}  // namespace

torch::Tensor activated(const torch::Tensor& x, Activation activation) {
  return activation == Activation::kSilu ? at::silu(x) : ops::gelu(x, gelu_form(activation));
}

torch::Tensor DenseMlp::inner(const std::vector<torch::Tensor>& products) const {
  if (form_ == MlpForm::kPlain) return activated(products[0], activation_);
  const bool in_one = form_ == MlpForm::kGatedInOne;
  if (activation_ == Activation::kSilu)
    return in_one ? ops::swiglu(products[0]) : ops::swiglu(products[0], products[1]);
  const ops::Gelu form = gelu_form(activation_);
  return in_one ? ops::geglu(products[0], form) : ops::geglu(products[0], products[1], form);
}

torch::Tensor DenseMlp::forward(const torch::Tensor& x) const {
  const torch::Tensor down = inner(input_.forward(x));
  std::optional<ops::LastProduct> of_the_layer;
  if (ends_layer_) of_the_layer.emplace();
  return output_.forward(down)[0];
}

void DenseMlp::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  groups.push_back({&input_, input_.named_linears(name + module_)});
  groups.push_back({&output_, output_.named_linears(name + module_)});
}

void DenseMlp::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  input_.append_parameters(name + module_, parameters);
  output_.append_parameters(name + module_, parameters);
}

namespace {

template <class Make>
LinearGroup group_of(const std::vector<LinearOutput>& outputs, const Make& make) {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Linear>> linears;
  for (const LinearOutput& output : outputs) {
    names.push_back(output.name);
    linears.push_back(make(output.out_features));
  }
  return {std::move(names), std::move(linears)};
}

}  // namespace

LinearGroup make_linear_group(int64_t in_features, const std::vector<LinearOutput>& outputs,
                              bool bias, const ModelConfig& config, torch::TensorOptions options) {
  return group_of(outputs, [&](int64_t out) -> std::unique_ptr<Linear> {
    if (config.gptq)
      return std::make_unique<GptqLinear>(in_features, out, bias, *config.gptq, options);
    if (config.nf4)
      return std::make_unique<Nf4Linear>(in_features, out, bias, *config.nf4, options);
    return std::make_unique<DenseLinear>(in_features, out, bias, options,
                                         config.transposed_linears);
  });
}

LinearGroup make_dense_group(int64_t in_features, const std::vector<LinearOutput>& outputs,
                             bool bias, torch::TensorOptions options) {
  return group_of(outputs, [&](int64_t out) {
    return std::make_unique<DenseLinear>(in_features, out, bias, options);
  });
}

}  // namespace sftbench
