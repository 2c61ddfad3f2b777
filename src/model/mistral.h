// Mistral (Jiang et al. 2023; MistralForCausalLM): Llama without biases, whose queries see only the
// last `sliding_window` keys, their own included (Beltagy et al. 2020).
#pragma once

#include "model/decoder.h"

namespace sftbench {

class Mistral : public Decoder {
 public:
  Mistral(const ModelConfig& config, const ops::KernelChoice& kernels,
          torch::TensorOptions options);

  torch::Tensor hidden_states(const TokenRows& rows, LayerRunner& runner) override;
};

}  // namespace sftbench
