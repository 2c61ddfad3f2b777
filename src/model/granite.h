// Granite 3 (IBM 2024; GraniteForCausalLM): Llama with four multipliers in the spirit of muP (Yang
// et al. 2022): on the embedding, on the attention scores (instead of head_dim^-1/2), on what each
// branch adds to the residual stream, and 1 / logits_scaling on the logits.
#pragma once

#include "model/decoder.h"

namespace sftbench {

class Granite : public Decoder {
 public:
  Granite(const ModelConfig& config, const ops::KernelChoice& kernels,
          torch::TensorOptions options);

  torch::Tensor hidden_states(const TokenRows& rows, LayerRunner& runner) override;
  double logit_scale() const override { return 1.0 / config().logits_scaling; }
};

}  // namespace sftbench
