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

struct ForwardPass;

// attention_dropout of config.json: of the probabilities of one layer, while `pass` (of the model
// that the layer belongs to) is one of training.
struct AttentionDropout {
  double probability;
  uint64_t layer;
  const ForwardPass* pass;
};

class SelfAttention {
 public:
  // scale: factor on the scores. window: keys that a query sees, itself included; 0 means all
  // before it.
  SelfAttention(const ModelConfig& config, double scale, int64_t window,
                const ops::KernelChoice& kernels, const AttentionDropout& dropout,
                torch::TensorOptions options);

  // x [B, S, H] -> [B, S, H]
  torch::Tensor forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups);
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters);

 private:
  ops::Dropout dropout() const;

  int64_t head_dim_;
  double scale_;
  int64_t window_;
  ops::KernelChoice kernels_;
  AttentionDropout dropout_;
  LinearGroup qkv_, o_;
};

}  // namespace sftbench
