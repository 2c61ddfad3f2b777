// Llama (Touvron et al. 2023; LlamaForCausalLM) and its kin: a decoder with norms, rotary
// positions, grouped-query attention and an MLP. What distinguishes them is in their configuration:
//   Mistral (Jiang et al. 2023)  queries see only the last keys (Beltagy et al. 2020)
//   Qwen2, Qwen3 (Alibaba 2024)  biases on queries, keys and values; norms over each of their heads
//   Mixtral (Jiang et al. 2024), GraniteMoe (IBM 2024)   a mixture of experts instead of the MLP
//   gpt-oss (OpenAI 2025)        a mixture of experts, attention sinks, windows in half the layers
//   Granite 4 (IBM 2025)         Mamba-2 instead of attention in most layers, no positions there
//   Granite 3 (IBM 2024)         multipliers on the embedding, the attention scores (instead of
//                                head_dim^-1/2), the branches and the logits
//   OLMo 2, Gemma 2 and 3        norms behind what the branches add
//   GPT-NeoX, StableLM, Cohere   both branches read the same stream
//   Phi 3                        one linear for queries, keys and values, one for gate and up
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/attention.h"
#include "model/decoder.h"

namespace sftbench {

class Llama : public Decoder {
 public:
  Llama(const ModelConfig& config, const ops::KernelChoice& kernels, torch::TensorOptions options);

 protected:
  RotaryTables positions(const torch::Tensor& x, const TokenRows& rows) override;
  torch::Tensor run_layer(int64_t index, const torch::Tensor& x,
                          const RotaryTables& positions) const override;
  torch::Tensor final_norm(const torch::Tensor& x) const override { return norm_.forward(x); }

  void append_layer_parameters(int64_t index, const std::string& name,
                               std::vector<NamedParameter>& parameters) override;
  void append_layer_groups(int64_t index, const std::string& name,
                           std::vector<NamedLinearGroup>& groups) override;
  void append_norm_parameters(const std::string& name,
                              std::vector<NamedParameter>& parameters) override;

  void follow_compute_dtype(torch::Dtype dtype) override;
  void divide_experts(ExpertGroup& group) override;
  std::vector<int64_t> take_expert_choices() override;
  std::vector<torch::Tensor> kept_tables() const override;

 private:
  struct Layer {
    std::optional<Norm> before_attention;
    std::unique_ptr<Mixer> mixer;
    std::optional<Norm> behind_attention, before_mlp;
    std::unique_ptr<Mlp> mlp;
    std::optional<Norm> behind_mlp;
  };

  torch::Tensor run_branches_in_parallel(int64_t index, const torch::Tensor& x,
                                         const RotaryTables& positions) const;
  torch::Tensor dropped(const torch::Tensor& branch, int64_t index, uint64_t number) const;
  std::unique_ptr<Mixer> make_mixer(int64_t layer, torch::TensorOptions options);
  std::unique_ptr<Mlp> make_mlp(int64_t layer, torch::TensorOptions options);

  Layer& layer(int64_t index) { return layers_[static_cast<size_t>(index)]; }
  const Layer& layer(int64_t index) const { return layers_[static_cast<size_t>(index)]; }

  std::vector<Layer> layers_;
  Norm norm_;
  std::optional<RotaryEmbedding> rotary_emb_, local_rotary_emb_;
};

}  // namespace sftbench
