// GPTBigCode (StarCoder, Li et al. 2023; GPTBigCodeForCausalLM): learned positions, and one head of
// keys and values for all queries (Shazeer 2019), or one for each. And GPT-2 (Radford et al. 2019;
// GPT2LMHeadModel), which it descends from.
#pragma once

#include "model/gpt.h"

namespace sftbench {

class GptBigCode : public Gpt {
 public:
  GptBigCode(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options);

 protected:
  torch::Tensor begin(const torch::Tensor& x, const TokenRows& rows) override;
  torch::Tensor attend(const torch::Tensor& qkv, const RotaryTables& positions,
                       const ops::Dropout& dropout) const override;
  void append_first_parameters(std::vector<NamedParameter>& parameters) override;

 private:
  torch::Tensor positions_;  // [max positions, H]
};

}  // namespace sftbench
