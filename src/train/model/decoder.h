// The parts that every decoder-only model has, built and named once: embedding, layers one after
// the other, final norm, output projection, and prompt tuning's virtual tokens. The layers are the
// business of each family.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "model/layers.h"
#include "model/rotary_embedding.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

class Decoder : public CausalLm {
 public:
  torch::Tensor hidden_states(const TokenRows& rows, LayerRunner& runner) final;

  torch::Tensor& embedding() final { return embedding_.weight(); }
  const torch::Tensor& output_weight() const final;
  void untie_output() final;
  std::vector<NamedParameter> parameters() final;
  std::vector<NamedLinearGroup> linear_groups() final;
  torch::Tensor& prompt() final { return prompt_; }

 protected:
  Decoder(const ModelConfig& config, const ops::KernelChoice& kernels,
          torch::TensorOptions options);

  // --- what a family consists of -----------------------------------------------------------------

  // The stream x [B, S, H] behind the embedding -> the stream that the first layer reads.
  virtual torch::Tensor begin(const torch::Tensor& x, const TokenRows& rows);
  // What all layers need of the rows: where tokens stand. x [B, S, H] gives length, dtype, device.
  virtual RotaryTables positions(const torch::Tensor& x, const TokenRows& rows);
  // One layer, x [B, S, H] -> [B, S, H]. May run again during the backward pass.
  virtual torch::Tensor run_layer(int64_t index, const torch::Tensor& x,
                                  const RotaryTables& positions) const = 0;
  virtual torch::Tensor final_norm(const torch::Tensor& x) const = 0;

  virtual void append_layer_parameters(int64_t index, const std::string& name,
                                       std::vector<NamedParameter>& parameters) = 0;
  virtual void append_layer_groups(int64_t index, const std::string& name,
                                   std::vector<NamedLinearGroup>& groups) = 0;
  // Parameters between the embedding and the first layer; none by default.
  virtual void append_first_parameters(std::vector<NamedParameter>& parameters);
  // Linears of the same; none by default.
  virtual void append_first_groups(std::vector<NamedLinearGroup>& groups);
  virtual void append_norm_parameters(const std::string& name,
                                      std::vector<NamedParameter>& parameters) = 0;

 private:
  torch::Tensor embed(const TokenRows& rows) const;
  std::string layer_name(int64_t index) const;

  TokenEmbedding embedding_;
  torch::Tensor output_;  // [V, H]; undefined when tied to the embedding
  torch::Tensor prompt_;  // [P, H], or undefined
};

}  // namespace sftbench
