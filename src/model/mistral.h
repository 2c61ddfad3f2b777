// Mistral (Jiang et al. 2023; MistralForCausalLM): Llama without biases, whose queries see only the
// last `sliding_window` keys, their own included (Beltagy et al. 2020).
#pragma once

#include "model/llama.h"

namespace sftbench {

class Mistral : public Llama {
 public:
  Mistral(const ModelConfig& config, const ops::KernelChoice& kernels, torch::TensorOptions options)
      : Llama(config, config.sliding_window, kernels, options) {}
};

}  // namespace sftbench
