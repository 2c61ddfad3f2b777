// Qwen2 (Qwen2Config, Qwen2ForCausalLM): Llama with biases on queries, keys and values. Qwen3: no
// biases, and an RMSNorm over each head of queries and keys. Both may give some layers a window.
// Their mixtures (Qwen2MoeConfig, Qwen3MoeConfig) have small experts, each with matrices of its
// own, and that of Qwen2 has an MLP with a gate beside them.
#include <algorithm>

#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_qwen(ConfigFields& fields, ModelConfig& config) {
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/false);
  require_silu(fields);
  read_layer_windows(fields, config);
}

void read_qwen2(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32;
  read_qwen(fields, config);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = true;
  read_rope(fields, config);
}

void read_qwen3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 32, kHeadDim = 128;
  read_qwen(fields, config);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads, .head_dim = kHeadDim});
  read_attention_bias(fields, config);
  config.attention.norms = QkNorms::kOfHeads;
  read_rope(fields, config);
}

// Which layers have experts, how wide these are, and how the router's choice is weighed.
void read_qwen_experts(ConfigFields& fields, ModelConfig& config, const ExpertDefaults& defaults,
                       int64_t width) {
  read_experts(fields, config, defaults);
  ExpertsConfig& experts = *config.experts;
  experts.storage = ExpertStorage::kApart;
  experts.names = kQwenExperts;
  experts.width = fields.extent("moe_intermediate_size", width);
  experts.softmax_over_all = true;
  experts.float32_weights = false;
  experts.scales_chosen = fields.boolean("norm_topk_prob", false);
  const int64_t step = fields.extent("decoder_sparse_step", 1);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    experts.dense_layers.push_back((i + 1) % step != 0);
  const Json* dense = fields.find("mlp_only_layers");
  if (dense == nullptr) return;
  const bool list = dense->is_array() &&
                    std::all_of(dense->begin(), dense->end(),
                                [](const Json& l) { return l.is_number_integer() && l >= 0; });
  if (!list) return fields.add("mlp_only_layers", "found " + shown(*dense), "a list of layers");
  for (const Json& layer : *dense)
    if (layer < config.num_hidden_layers) experts.dense_layers[layer.get<size_t>()] = true;
}

void read_qwen3_moe(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 4;
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/false);
  require_silu(fields);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  read_attention_bias(fields, config);
  config.attention.norms = QkNorms::kOfHeads;
  if (fields.boolean("use_sliding_window", false)) read_window(fields, config, 4096);
  read_qwen_experts(fields, config, {.count = 128, .per_token = 8, .count_key = "num_experts"},
                    768);
  read_rope(fields, config);
}

// Every other of the first layers has the window, where one is used.
void read_qwen2_moe_windows(ConfigFields& fields, ModelConfig& config) {
  const bool used = fields.boolean("use_sliding_window", false);
  const int64_t last = fields.extent("max_window_layers", 28);
  if (used) read_window(fields, config, 4096);
  if (const Json* types = fields.find("layer_types"))
    return read_layer_types(fields, *types, config);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.attention.windowed.push_back(i % 2 == 0 && i < last);
}

void read_qwen2_moe(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 16;
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/false);
  require_silu(fields);
  read_qwen2_moe_windows(fields, config);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.input_bias = fields.boolean("qkv_bias", true);
  read_qwen_experts(fields, config, {.count = 60, .per_token = 4, .count_key = "num_experts"},
                    1408);
  config.experts->gates_shared = true;
  config.shared_mlp = {.module = "mlp.shared_expert", .is_multiplied = true};
  config.shared_intermediate_size = fields.extent("shared_expert_intermediate_size", 5632);
  read_rope(fields, config);
}

}  // namespace

const Family kQwen2MoeFamily = {"qwen2_moe", "Qwen2MoeForCausalLM", "Qwen2MoeDecoderLayer",
                                kLlamaNames, read_qwen2_moe,        llama_shape};

const Family kQwen3MoeFamily = {"qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeDecoderLayer",
                                kLlamaNames, read_qwen3_moe,        llama_shape};

const Family kQwen2Family = {"qwen2",     "Qwen2ForCausalLM", "Qwen2DecoderLayer",
                             kLlamaNames, read_qwen2,         llama_shape};

const Family kQwen3Family = {"qwen3",     "Qwen3ForCausalLM", "Qwen3DecoderLayer",
                             kLlamaNames, read_qwen3,         llama_shape};

}  // namespace sftbench
