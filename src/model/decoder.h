// The parts that a decoder-only model of the Llama kind consists of, built and named once. How a
// layer combines them is the business of each family (llama.cpp, granite.cpp).
#pragma once

#include <torch/types.h>

#include <vector>

#include "model/attention.h"
#include "model/layers.h"
#include "model/rotary_embedding.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

struct DecoderLayer {
  RmsNorm input_layernorm;
  SelfAttention self_attn;
  RmsNorm post_attention_layernorm;
  GatedMlp mlp;
};

class Decoder : public CausalLm {
 public:
  // attention_scale: factor on the attention scores. window as in SelfAttention.
  Decoder(const ModelConfig& config, const ops::KernelChoice& kernels, double attention_scale,
          int64_t window, torch::TensorOptions options);

  const torch::Tensor& output_weight() const override;
  std::vector<NamedParameter> parameters() override;
  std::vector<NamedLinearGroup> linear_groups() override;
  torch::Tensor& prompt() override { return prompt_; }

 protected:
  // input_ids [B, S] -> [B, P + S, H]: the virtual tokens, where there are any, then the tokens.
  torch::Tensor embed(const torch::Tensor& input_ids) const;

  TokenEmbedding embed_tokens_;
  std::vector<DecoderLayer> layers_;
  RmsNorm norm_;
  torch::Tensor lm_head_;  // [V, H]; undefined when tied to the embedding
  RotaryEmbedding rotary_emb_;
  torch::Tensor prompt_;  // [P, H], or undefined
};

}  // namespace sftbench
