#include "model/layers.h"

#include "model/gptq_linear.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/fp8_linear.h"
#include "sftbench/ops/ops.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench {

DenseLinear::DenseLinear(int64_t in_features, int64_t out_features, bool bias,
                         torch::TensorOptions options)
    : weight_(torch::empty({out_features, in_features}, options)),
      bias_(bias ? torch::empty({out_features}, options) : torch::Tensor()) {}

torch::Tensor DenseLinear::forward(const torch::Tensor& x) {
  if (in_fp8_ && compute_dtype_) return ops::fp8_linear(x.to(*compute_dtype_), weight_, bias_);
  const auto [weight, bias] = operands();
  return ops::linear(compute_dtype_ ? x.to(*compute_dtype_) : x, weight, bias);
}

// In the dtype that is computed in.
ops::LinearOperands DenseLinear::operands() const {
  if (!compute_dtype_) return {weight_, bias_};
  const torch::Dtype dtype = *compute_dtype_;
  return {weight_.to(dtype), bias_.defined() ? bias_.to(dtype) : bias_};
}

void DenseLinear::multiply_in_fp8(const std::string& name) {
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

RmsNorm::RmsNorm(int64_t hidden_size, double epsilon, const ops::KernelChoice& kernels,
                 torch::TensorOptions options, bool rounds_last)
    : weight_(torch::empty({hidden_size}, options)),
      epsilon_(epsilon),
      rounds_last_(rounds_last),
      rms_norm_(kernels.rms_norm),
      add_rms_norm_(kernels.add_rms_norm) {}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) const {
  const torch::Dtype wide = torch::promote_types(x.scalar_type(), torch::kFloat32);
  if (rounds_last_) return rms_norm_(x.to(wide), weight_.to(wide), epsilon_).to(x.scalar_type());
  return rms_norm_(x, weight_.to(x.scalar_type()), epsilon_);
}

ops::NormedSum RmsNorm::forward_sum(const torch::Tensor& x, const torch::Tensor& addend,
                                    double scale) const {
  // Under autocast a branch may be narrower than the stream.
  if (addend.defined() && addend.scalar_type() != x.scalar_type())
    return forward_sum(x.add(addend, scale));
  if (!rounds_last_) return add_rms_norm_(x, addend, scale, weight_.to(x.scalar_type()), epsilon_);
  const torch::Tensor sum = addend.defined() ? x.add(addend, scale) : x;
  return {sum, forward(sum)};
}

void RmsNorm::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  parameters.push_back({name + ".weight", &weight_, ParameterStart::kOnes});
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

GatedMlp::GatedMlp(const ModelConfig& config, torch::TensorOptions options)
    : gate_up_(make_linear_group(
          config.hidden_size,
          {{"gate_proj", config.intermediate_size}, {"up_proj", config.intermediate_size}},
          config.mlp_bias, config.gptq, options)),
      down_(make_linear_group(config.intermediate_size, {{"down_proj", config.hidden_size}},
                              config.mlp_bias, config.gptq, options)) {}

torch::Tensor GatedMlp::forward(const torch::Tensor& x) const {
  const std::vector<torch::Tensor> gate_and_up = gate_up_.forward(x);
  const torch::Tensor gated = ops::swiglu(gate_and_up[0], gate_and_up[1]);
  const ops::LastProduct of_the_layer;
  return down_.forward(gated)[0];
}

void GatedMlp::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  groups.push_back({&gate_up_, gate_up_.named_linears(name + ".mlp")});
  groups.push_back({&down_, down_.named_linears(name + ".mlp")});
}

void GatedMlp::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  gate_up_.append_parameters(name + ".mlp", parameters);
  down_.append_parameters(name + ".mlp", parameters);
}

LinearGroup make_linear_group(int64_t in_features, const std::vector<LinearOutput>& outputs,
                              bool bias, const std::optional<GptqConfig>& gptq,
                              torch::TensorOptions options) {
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Linear>> linears;
  for (const LinearOutput& output : outputs) {
    names.push_back(output.name);
    if (gptq) {
      linears.push_back(
          std::make_unique<GptqLinear>(in_features, output.out_features, bias, *gptq, options));
    } else {
      linears.push_back(
          std::make_unique<DenseLinear>(in_features, output.out_features, bias, options));
    }
  }
  return {std::move(names), std::move(linears)};
}

}  // namespace sftbench
