// What the models before Llama share: a pre-norm decoder with LayerNorm, biases everywhere, one
// fused projection for queries, keys and values, and an MLP of two projections with a GELU between
// them.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "model/layers.h"

namespace sftbench {

// How a family names the modules of a layer.
struct GptNames {
  const char* first_norm;
  const char* attention;  // the module
  const char* qkv;        // within it
  const char* attention_output;
  const char* second_norm;
  const char* mlp_input;  // within "mlp"
  const char* mlp_output;
};

class Gpt : public Decoder {
 protected:
  // output_start: what the projections onto the residual stream start from.
  Gpt(const ModelConfig& config, const GptNames& names, ParameterStart output_start,
      const ops::KernelChoice& kernels, torch::TensorOptions options);

  // Attention over the fused projection's result [B, S, q + k + v] -> [B, S, H], and its mask.
  virtual torch::Tensor attend(const torch::Tensor& qkv, const RotaryTables& positions,
                               const ops::Dropout& dropout) const = 0;

  torch::Tensor run_layer(int64_t index, const torch::Tensor& x,
                          const RotaryTables& positions) const override;
  torch::Tensor final_norm(const torch::Tensor& x) const override { return norm_.forward(x); }

  void append_layer_parameters(int64_t index, const std::string& name,
                               std::vector<NamedParameter>& parameters) override;
  void append_layer_groups(int64_t index, const std::string& name,
                           std::vector<NamedLinearGroup>& groups) override;
  void append_norm_parameters(const std::string& name,
                              std::vector<NamedParameter>& parameters) override;

 private:
  struct Layer {
    LayerNorm first_norm;
    LinearGroup qkv, attention_output;
    LayerNorm second_norm;
    LinearGroup mlp_input, mlp_output;
  };

  ops::Dropout residual_dropout(int64_t layer, uint64_t branch) const;

  GptNames layer_names_;
  ParameterStart output_start_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
};

}  // namespace sftbench
