// The layers that the families share: dense linears, RMSNorm, the token embedding and the gated
// MLP. Each takes its parameters uninitialized and names them as Hugging Face does.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/model/linear.h"
#include "sftbench/ops/dropout.h"
#include "sftbench/ops/kernel_choice.h"

namespace sftbench {

class ExpertGroup;
struct ForwardPass;
struct RotaryTables;

// y = x W^T + b (torch.nn.Linear).
class DenseLinear : public Linear {
 public:
  // transposed: the weight is kept as GPT-2 stores it.
  DenseLinear(int64_t in_features, int64_t out_features, bool bias, torch::TensorOptions options,
              bool transposed = false);

  torch::Tensor forward(const torch::Tensor& x) override;
  bool is_product() const override { return !in_fp8_ && !transposed_; }
  ops::LinearOperands operands() const override;
  torch::Tensor dense_rows(int64_t first, int64_t count) const override;
  torch::Tensor bias() const override { return bias_; }
  int64_t in_features() const override { return weight_.size(transposed_ ? 0 : 1); }
  int64_t out_features() const override { return weight_.size(transposed_ ? 1 : 0); }
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;
  void set_compute_dtype(torch::Dtype dtype) override { compute_dtype_ = dtype; }
  void multiply_in_fp8(const std::string& name) override;

 private:
  torch::Tensor weight_;  // [out, in], or transposed
  torch::Tensor bias_;    // [out], or undefined
  bool transposed_;
  std::optional<torch::Dtype> compute_dtype_;
  bool in_fp8_ = false;
};

// The norm that a model has everywhere: an RMSNorm, or a LayerNorm with or without bias. Under
// autocast the residual stream may be wider than the parameters: these follow it.
class Norm {
 public:
  Norm(int64_t width, const ModelConfig& config, const ops::KernelChoice& kernels,
       torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) const;
  // x + scale * addend, and forward() of it; without an addend of x.
  ops::NormedSum forward_sum(const torch::Tensor& x, const torch::Tensor& addend = {},
                             double scale = 1) const;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);

 private:
  // As the kernels want it.
  torch::Tensor factor(torch::Dtype dtype) const;

  torch::Tensor weight_;  // [H]
  torch::Tensor bias_;    // [H], or undefined
  double epsilon_;
  bool subtracts_mean_, rounds_last_, from_one_;
  decltype(ops::KernelChoice::rms_norm) rms_norm_;
  decltype(ops::KernelChoice::add_rms_norm) add_rms_norm_;
};

// torch.nn.LayerNorm. Under autocast the residual stream may be wider than the parameters: these
// follow it.
class LayerNorm {
 public:
  LayerNorm(int64_t hidden_size, double epsilon, torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) const;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);

 private:
  torch::Tensor weight_, bias_;  // [H]
  double epsilon_;
};

// torch.nn.Embedding; the padding row, where there is one, gets no gradient through it.
class TokenEmbedding {
 public:
  TokenEmbedding(int64_t vocab_size, int64_t hidden_size, std::optional<int64_t> padding_row,
                 torch::TensorOptions options);

  // ids [B, S] int64 -> [B, S, H]
  torch::Tensor forward(const torch::Tensor& ids) const;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);
  const torch::Tensor& weight() const { return weight_; }
  torch::Tensor& weight() { return weight_; }

 private:
  torch::Tensor weight_;  // [V, H]
  std::optional<int64_t> padding_row_;
};

// What a layer does across positions: attention, or Mamba-2.
class Mixer {
 public:
  virtual ~Mixer() = default;
  // x [B, S, H] -> [B, S, H]
  virtual torch::Tensor forward(const torch::Tensor& x, const RotaryTables& positions) const = 0;
  // `name`: of the layer.
  virtual void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) = 0;
  virtual void append_parameters(const std::string& name,
                                 std::vector<NamedParameter>& parameters) = 0;
};

// What a layer does with each position by itself.
class Mlp {
 public:
  virtual ~Mlp() = default;
  // x [B, S, H] -> [B, S, H]
  virtual torch::Tensor forward(const torch::Tensor& x) const = 0;
  // `name`: of the layer.
  virtual void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) = 0;
  virtual void append_parameters(const std::string& name,
                                 std::vector<NamedParameter>& parameters) = 0;
  // Of products that are no linears of a group; those are told by their slots.
  virtual void set_compute_dtype(torch::Dtype) {}
  // Of a mixture: its experts are divided among the ranks of `group`, which outlives it.
  virtual void divide_experts(ExpertGroup&) {}
  // CausalLm::take_expert_choices().
  virtual std::vector<int64_t> take_expert_choices() { return {}; }
};

torch::Tensor activated(const torch::Tensor& x, Activation activation);

// SwiGLU and its kin (Shazeer 2020), or an MLP of two linears: MlpForm.
class DenseMlp : public Mlp {
 public:
  // Its last product is the layer's where nothing reads its result: a recomputation leaves it out.
  DenseMlp(const ModelConfig& config, const MlpConfig& mlp, int64_t width, bool bias,
           torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) const override;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) override;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;

 private:
  torch::Tensor inner(const std::vector<torch::Tensor>& products) const;

  MlpForm form_;
  Activation activation_;
  bool ends_layer_;
  std::string module_;
  LinearGroup input_, output_;
};

// Places that draw a dropout of their own, beside the attention of each layer, which is numbered
// from 0.
inline constexpr uint64_t kEmbeddingPlace = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t kFirstBranchPlace = uint64_t{1} << 32;  // two for each layer

// What dropout draws from at one place of a layer in the pass that runs: nothing where the pass
// does not train.
ops::Dropout dropout_at(double probability, uint64_t place, const ForwardPass& pass);

// Linears that read the same input of width `in_features`, kept as the model's linears are:
// quantized, or transposed. outputs: leaf name and width of each.
struct LinearOutput {
  std::string name;
  int64_t out_features;
};
LinearGroup make_linear_group(int64_t in_features, const std::vector<LinearOutput>& outputs,
                              bool bias, const ModelConfig& config, torch::TensorOptions options);
// The same, neither quantized nor transposed.
LinearGroup make_dense_group(int64_t in_features, const std::vector<LinearOutput>& outputs,
                             bool bias, torch::TensorOptions options);

}  // namespace sftbench
