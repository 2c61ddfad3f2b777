// Bloom (BigScience 2022; BloomForCausalLM): no positions, but scores that fall with the distance
// of a key (ALiBi, Press et al. 2022), and a LayerNorm behind the embedding.
#pragma once

#include "model/gpt.h"

namespace sftbench {

class Bloom : public Gpt {
 public:
  Bloom(const ModelConfig& config, const ops::KernelChoice& kernels, torch::TensorOptions options);

 protected:
  torch::Tensor begin(const torch::Tensor& x, const TokenRows& rows) override;
  torch::Tensor attend(const torch::Tensor& qkv, const RotaryTables& positions,
                       const ops::Dropout& dropout) const override;
  void append_first_parameters(std::vector<NamedParameter>& parameters) override;

 private:
  LayerNorm embedding_norm_;
  torch::Tensor slopes_;  // [heads], where and as wide as the scores that they are added to
};

// Slope of each head: the geometric sequence of the paper, and for numbers of heads that are no
// power of two every other member of the next one. [heads] float64.
torch::Tensor alibi_slopes(int64_t heads);

}  // namespace sftbench
