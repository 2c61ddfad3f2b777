// Causal self-attention with grouped key/value heads (Ainslie et al. 2023) and rotary positions, as
// the Llama-like families have it: LlamaAttention, MistralAttention, GraniteAttention.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/rotary_embedding.h"
#include "sftbench/checkpoint/model_config.h"
#include "sftbench/model/linear.h"
#include "sftbench/ops/kernel_choice.h"

namespace sftbench {

class SelfAttention {
 public:
  // scale: factor on the scores. window: keys that a query sees, itself included; 0 means all
  // before it.
  SelfAttention(const ModelConfig& config, double scale, int64_t window,
                const ops::KernelChoice& kernels, torch::TensorOptions options);

  // x [B, S, H] -> [B, S, H]
  torch::Tensor forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups);
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);

 private:
  int64_t head_dim_;
  double scale_;
  int64_t window_;
  ops::KernelChoice kernels_;
  LinearGroup qkv_, o_;
};

}  // namespace sftbench
