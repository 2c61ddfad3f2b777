// Mixtures of experts in place of the MLP: MixtralSparseMoeBlock, Qwen2MoeSparseMoeBlock,
// GraniteMoeMoE, GptOssMLP. A router chooses experts for each position. Positions are sorted by
// expert, multiplied group by group without padding or copies of weights (ops/grouped_linear.h),
// and added up by the router's weights.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/layers.h"
#include "model/router_balance.h"

namespace sftbench {

class Experts : public Mlp {
 public:
  // Of layer number `layer`. balance: told of every choice, or null. With shared_intermediate_size
  // an MLP that every position goes through stands beside the experts.
  Experts(const ModelConfig& config, int64_t layer, RouterBalance* balance,
          torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) const override;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) override;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;
  void set_compute_dtype(torch::Dtype dtype) override { compute_dtype_ = dtype; }
  void divide_experts(ExpertGroup& group) override { group_ = &group; }
  std::vector<int64_t> take_expert_choices() override;

 private:
  struct Choice {
    torch::Tensor experts;  // [T, k] int64
    torch::Tensor weights;  // [T, k]
  };
  Choice route(const torch::Tensor& x) const;
  void count(const std::vector<int64_t>& offsets) const;
  torch::Tensor clamped(const torch::Tensor& gate_and_up) const;
  torch::Tensor through_experts(const torch::Tensor& x, const std::vector<int64_t>& offsets) const;
  torch::Tensor through_quantized(const torch::Tensor& x,
                                  const std::vector<int64_t>& offsets) const;
  torch::Tensor through_experts_of_all(const torch::Tensor& rows,
                                       const std::vector<int64_t>& offsets,
                                       const std::function<void()>& meanwhile) const;
  // Of experts that have tensors of their own: those that are here.
  int64_t first_here(size_t all) const;
  std::string expert_name(const std::string& layer, size_t expert) const;
  std::vector<torch::Tensor> here(const std::vector<torch::Tensor>& all) const;
  std::vector<torch::Tensor> cast(const std::vector<torch::Tensor>& weights) const;

  ExpertsConfig config_;
  int64_t layer_;
  RouterBalance* balance_;
  torch::Tensor router_;                  // [E, H]
  std::vector<torch::Tensor> gate_, up_;  // kApart: [I, H] each
  std::vector<torch::Tensor> down_;       // kApart: [H, I] each
  // kApart, quantized: of each expert what reads its input, gate and up, and what reads that.
  std::vector<LinearGroup> quantized_in_, quantized_out_;
  torch::Tensor input_, output_;  // kStacked: [E, 2I, H], [E, H, I]; else [in, out]
  torch::Tensor router_bias_, input_bias_, output_bias_;  // kTransposed: [E], [E, 2I], [E, H]
  std::optional<DenseMlp> shared_;
  std::optional<LinearGroup> shared_gate_;
  std::optional<torch::Dtype> compute_dtype_;
  ExpertGroup* group_ = nullptr;          // null: all experts are here
  mutable std::vector<int64_t> choices_;  // [E], since they were taken
};

}  // namespace sftbench
