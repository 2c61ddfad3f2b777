// Llama (Touvron et al. 2023; LlamaForCausalLM): a pre-norm decoder with RMSNorm, rotary positions,
// SwiGLU and grouped-query attention, optionally with biases and a tied output projection.
#pragma once

#include "model/decoder.h"

namespace sftbench {

class Llama : public Decoder {
 public:
  Llama(const ModelConfig& config, const ops::KernelChoice& kernels, torch::TensorOptions options);

  torch::Tensor hidden_states(const TokenRows& rows, LayerRunner& runner) override;

 protected:
  // For families that only see fewer keys; window as in SelfAttention.
  Llama(const ModelConfig& config, int64_t window, const ops::KernelChoice& kernels,
        torch::TensorOptions options);
};

}  // namespace sftbench
