// SmolLM3 (Hugging Face 2025; SmolLM3Config, SmolLM3ForCausalLM): Llama, of which some layers have
// no positions, and those may have a window.
#include "families/config_parts.h"
#include "families/llama.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

// A list of 1 and 0, or each last layer of an interval.
void read_smollm3_positions(ConfigFields& fields, ModelConfig& config) {
  std::vector<bool>& unrotated = config.attention.unrotated;
  const int64_t interval = fields.extent("no_rope_layer_interval", 4);
  const Json* list = fields.find("no_rope_layers");
  if (list == nullptr) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i)
      unrotated.push_back((i + 1) % interval == 0);
    return;
  }
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  for (size_t i = 0; list->is_array() && i < std::min(layers, list->size()); ++i) {
    const Json& has_positions = list->at(i);
    if (has_positions == 0 || has_positions == 1) unrotated.push_back(has_positions == 0);
  }
  if (unrotated.size() != layers) {
    fields.add("no_rope_layers", "found " + shown(*list),
               "a list of at least " + counted(layers, "number") + ", each 0 or 1");
    unrotated.assign(layers, false);
  }
}

void read_smollm3_windows(ConfigFields& fields, ModelConfig& config) {
  const bool used = fields.boolean("use_sliding_window", false);
  read_window(fields, config, 0);
  if (const Json* types = fields.find("layer_types"))
    return read_layer_types(fields, *types, config);
  config.attention.windowed.assign(config.attention.unrotated.size(), false);
  if (used) config.attention.windowed = config.attention.unrotated;
}

void read_smollm3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 4, kPaddingRow = 128004;
  read_sizes(fields, config, /*max_position_embeddings=*/32768);
  read_embedding(fields, config, /*tied_by_default=*/true, kPaddingRow);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  read_attention_bias(fields, config);
  config.mlp_bias = fields.boolean("mlp_bias", false);
  require_silu(fields);
  read_smollm3_positions(fields, config);
  read_smollm3_windows(fields, config);
  read_rope(fields, config, {.theta = 2000000.0});
}

}  // namespace

const Family kSmolLm3Family = {"smollm3",   "SmolLM3ForCausalLM", "SmolLM3DecoderLayer",
                               kLlamaNames, read_smollm3,         llama_shape};

}  // namespace sftbench
