#include "model/layers.h"

#include <torch/torch.h>

#include "sftbench/ops/ops.h"

namespace sftbench {

DenseLinear::DenseLinear(int64_t in_features, int64_t out_features, bool bias,
                         torch::TensorOptions options)
    : weight_(torch::empty({out_features, in_features}, options)),
      bias_(bias ? torch::empty({out_features}, options) : torch::Tensor()) {}

torch::Tensor DenseLinear::forward(const torch::Tensor& x) {
  if (!compute_dtype_) return ops::linear(x, weight_, bias_);
  const torch::Dtype dtype = *compute_dtype_;
  return ops::linear(x.to(dtype), weight_.to(dtype), bias_.defined() ? bias_.to(dtype) : bias_);
}

void DenseLinear::append_parameters(const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  parameters.push_back({name + ".weight", &weight_});
  if (bias_.defined()) parameters.push_back({name + ".bias", &bias_});
}

RmsNorm::RmsNorm(int64_t hidden_size, double epsilon, torch::TensorOptions options)
    : weight_(torch::empty({hidden_size}, options)), epsilon_(epsilon) {}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) const {
  return ops::rms_norm(x, weight_.to(x.scalar_type()), epsilon_);
}

void RmsNorm::append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) {
  parameters.push_back({name + ".weight", &weight_});
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

GatedMlp::GatedMlp(int64_t hidden_size, int64_t intermediate_size, bool bias,
                   torch::TensorOptions options)
    : gate_proj_(std::make_unique<DenseLinear>(hidden_size, intermediate_size, bias, options)),
      up_proj_(std::make_unique<DenseLinear>(hidden_size, intermediate_size, bias, options)),
      down_proj_(std::make_unique<DenseLinear>(intermediate_size, hidden_size, bias, options)) {}

torch::Tensor GatedMlp::forward(const torch::Tensor& x) const {
  return down_proj_->forward(ops::swiglu(gate_proj_->forward(x), up_proj_->forward(x)));
}

void GatedMlp::append_linears(const std::string& name, std::vector<NamedLinear>& linears) {
  linears.push_back({name + ".gate_proj", &gate_proj_});
  linears.push_back({name + ".up_proj", &up_proj_});
  linears.push_back({name + ".down_proj", &down_proj_});
}

void append_parameters_of(const std::vector<NamedLinear>& linears,
                          std::vector<NamedParameter>& parameters) {
  for (const NamedLinear& linear : linears)
    (*linear.slot)->append_parameters(linear.name, parameters);
}

}  // namespace sftbench
