// The parts of config.json that several families share, each read into its place in ModelConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "families/config_fields.h"
#include "families/rope_config.h"
#include "sftbench/families/model_config.h"

namespace sftbench {

// hidden_size, intermediate_size (required, unless a default is given), num_hidden_layers,
// vocab_size, initializer_range, dtype, and the epsilon of RMSNorm.
void read_sizes(ConfigFields& fields, ModelConfig& config, int64_t max_position_embeddings,
                int64_t intermediate_size = 0);

// Whether the output projection is the embedding, and the embedding's padding row, which some
// classes have where config.json says nothing. REQUIRES: vocab_size is read.
void read_embedding(ConfigFields& fields, ModelConfig& config, bool tied_by_default,
                    std::optional<int64_t> default_padding_row = std::nullopt);

// What a configuration class has where config.json says nothing.
struct HeadDefaults {
  int64_t key_value_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;         // 0: hidden_size / heads
};

// num_attention_heads, num_key_value_heads (null: as many as query heads), head_dim,
// attention_dropout; the scale becomes head_dim^-1/2. REQUIRES: hidden_size is read.
void read_heads(ConfigFields& fields, ModelConfig& config, const HeadDefaults& defaults = {});

// rope_parameters or rope_theta with rope_scaling. REQUIRES: heads and max_position_embeddings are
// read.
void read_rope(ConfigFields& fields, ModelConfig& config, const RopeDefaults& defaults = {});

// rope_parameters with an object for full_attention and one for sliding_attention, or what older
// files have beside it. REQUIRES: as read_rope().
void read_layer_ropes(ConfigFields& fields, ModelConfig& config, const RopeDefaults& full,
                      const RopeDefaults& sliding);

// An even head_dim: heads are rotated whole.
void require_pairs(ConfigFields& fields, const ModelConfig& config);

// attention_bias, of all four projections.
void read_attention_bias(ConfigFields& fields, ModelConfig& config, bool otherwise = false);

// The activation function under `key`: SiLU, or GELU by the error function or by tanh.
void read_activation(ConfigFields& fields, ModelConfig& config, const std::string& key,
                     const std::string& otherwise);

// sliding_window, null: none.
void read_window(ConfigFields& fields, ModelConfig& config, int64_t otherwise);

// layer_types, or windows in all layers but each last one of `period`, which the field of that name
// may change. REQUIRES: num_hidden_layers is read.
void read_periodic_windows(ConfigFields& fields, ModelConfig& config, int64_t period,
                           const char* period_key = nullptr);

// What the family does not have, which has to be 0, or false.
void require_none(ConfigFields& fields, const std::string& key, const std::string& why);

// hidden_act, which has to be SiLU.
void require_silu(ConfigFields& fields);

// sliding_window with use_sliding_window, layer_types and max_window_layers, as Qwen has them.
// REQUIRES: num_hidden_layers is read.
void read_layer_windows(ConfigFields& fields, ModelConfig& config);

// hidden_size (under `hidden_key`), vocab_size, the numbers of layers and heads as n_layer and
// n_head or under PretrainedConfig's names, layer_norm_epsilon, initializer_range, dtype; the scale
// becomes head_dim^-1/2. Of the models before Llama.
void read_gpt_sizes(ConfigFields& fields, const std::string& hidden_key, ModelConfig& config);

// Bloom's and GPT-NeoX's layers: `attention` with one linear, in which each head has its query, key
// and value side by side, and an MLP of two linears.
void describe_fused_layers(ModelConfig& config, const char* attention);

// num_local_experts or what the family calls it, num_experts_per_tok, output_router_logits with
// router_aux_loss_coef. REQUIRES:
// intermediate_size is read, which is the width of an expert.
struct ExpertDefaults {
  int64_t count = 8;
  int64_t per_token = 2;
  const char* count_key = "num_local_experts";
};
void read_experts(ConfigFields& fields, ModelConfig& config, const ExpertDefaults& defaults = {});

// layer_types, a list of full_attention and sliding_attention. REQUIRES: num_hidden_layers is read.
void read_layer_types(ConfigFields& fields, const Json& types, ModelConfig& config);

// The multipliers of Granite's families; the attention's replaces its scale.
void read_granite_multipliers(ConfigFields& fields, ModelConfig& config);

// A share from 0 to below 1.
double read_dropout(ConfigFields& fields, const std::string& key, double otherwise);

}  // namespace sftbench
