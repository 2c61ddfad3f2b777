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

// self_attn with q_proj, k_proj, v_proj and o_proj, whose queries see `window` keys (0: all).
void append_attention(LayerShape& layer, const ModelConfig& config, int64_t window);

// The values of an MLP whose linears are listed. Its first products make `halves` times `inner` values of an input of
// `hidden` values, its activation function makes `inner` values of these, and its last product reads them.
void append_mlp_values(LayerShape& layer, int64_t hidden, int64_t inner, int64_t halves);

// A block of Bloom's and GPT-NeoX's: LayerNorm, one linear of `attention` for queries, keys and values and `attention`.dense,
// LayerNorm, mlp with dense_h_to_4h and dense_4h_to_h.
LayerShape bloom_layer(const ModelConfig& config, const std::string& attention);

// mlp with gate_proj, up_proj and down_proj.
void append_gated_mlp(LayerShape& layer, const ModelConfig& config);

// The products of a mixture of experts, whose tensors the family names.
void append_experts(LayerShape& layer, const ModelConfig& config);

// block_sparse_moe of Granite's families: a router, and the matrices of all experts stacked.
void append_stacked_experts(LayerShape& layer, const ModelConfig& config);

// shared_mlp, if there is one: gate and up projection in one linear.
void append_shared_mlp(LayerShape& layer, const ModelConfig& config);

// "<name>.weight" and "<name>.bias".
void append_layer_norm(std::vector<TensorShape>& tensors, const std::string& name, int64_t hidden);

// A model of config.num_hidden_layers layers: `layers` one for each, or one for all. With an
// embedding, a final norm without bias, and an output projection unless it is tied.
ModelShape decoder_shape(const ModelConfig& config, const std::vector<LayerShape>& layers);

// Gives the final norm a bias.
void append_layer_norm_bias(ModelShape& shape);

// LlamaDecoderLayer number `layer`: norm, attention, norm, gated MLP.
LayerShape llama_layer(const ModelConfig& config, int64_t layer);

}  // namespace sftbench
