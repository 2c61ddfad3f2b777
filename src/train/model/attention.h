// Causal self-attention with grouped key/value heads (Ainslie et al. 2023) and rotary positions, as
// AttentionConfig describes it: LlamaAttention, Qwen3Attention, Phi3Attention, Gemma2Attention and
// their kin.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/layers.h"
#include "model/rotary_embedding.h"
#include "sftbench/families/model_config.h"
#include "sftbench/model/linear.h"
#include "sftbench/ops/kernel_choice.h"

namespace sftbench {

struct ForwardPass;

class SelfAttention : public Mixer {
 public:
  // Of layer number `layer`, which draws a dropout of its own in passes that train. `pass` belongs
  // to the model and outlives this.
  SelfAttention(const ModelConfig& config, int64_t layer, const ops::KernelChoice& kernels,
                const ForwardPass& pass, torch::TensorOptions options);

  // x [B, S, H] -> [B, S, H]
  torch::Tensor forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const override;
  void append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) override;
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;

 private:
  struct Heads {
    torch::Tensor q, k, v;  // [B, S, heads, D]
  };
  Heads heads_of(const std::vector<torch::Tensor>& products) const;
  void rotate(Heads& heads, const RotaryTables& rope) const;

  AttentionConfig config_;
  uint64_t layer_;
  int64_t window_;
  bool local_rope_;
  ops::KernelChoice kernels_;
  const ForwardPass& pass_;
  LinearGroup qkv_, o_;
  std::optional<Norm> q_norm_, k_norm_;
  torch::Tensor sinks_;  // [heads], or undefined
};

}  // namespace sftbench
