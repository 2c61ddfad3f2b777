// The parts that shapes of several families consist of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/families/model_shape.h"

namespace sftbench {

// A linear projection and its tensors, "<name>.weight" and with `bias` "<name>.bias".
void append_linear(LayerShape& layer, const std::string& name, int64_t in, int64_t out, bool bias,
                   int input = LinearShape::kKeptAnyway);

// Attention as config.attention describes it, whose queries see `window` keys (0: all).
void append_attention(LayerShape& layer, const ModelConfig& config, int64_t window);

// The values of an MLP whose linears are listed. Its first products make `halves` times `inner`
// values of an input of `hidden` values, its activation function makes `inner` values of these, and
// its last product reads them.
void append_mlp_values(LayerShape& layer, int64_t hidden, int64_t inner, int64_t halves);

// An MLP of width `inner`.
void append_mlp(LayerShape& layer, const ModelConfig& config, const MlpConfig& mlp, int64_t inner,
                bool bias);

// The products of a mixture of experts, whose tensors the family names.
void append_experts(LayerShape& layer, const ModelConfig& config);

// A router, and three matrices of each expert.
void append_experts_apart(LayerShape& layer, const ModelConfig& config);

// block_sparse_moe of Granite's families: a router, and the matrices of all experts stacked.
void append_stacked_experts(LayerShape& layer, const ModelConfig& config);

// The MLP beside the experts, if there is one, and its own gate.
void append_shared_mlp(LayerShape& layer, const ModelConfig& config);

// "<name>.weight" and "<name>.bias".
void append_layer_norm(std::vector<TensorShape>& tensors, const std::string& name, int64_t hidden);

// A model of config.num_hidden_layers layers: `layers` one for each, or one for all. With an
// embedding, a final norm, and an output projection unless it is tied.
ModelShape decoder_shape(const ModelConfig& config, const std::vector<LayerShape>& layers);

// LlamaDecoderLayer number `layer` and its kin: attention, an MLP, and the norms that
// config.layer_form says.
LayerShape llama_layer(const ModelConfig& config, int64_t layer);

}  // namespace sftbench
