// config.json: whatever the bytes, either an InputError or a configuration that a model can be
// built from.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/families/model_config.h"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check_promises(const sftbench::ModelConfig& config) {
  for (const int64_t extent : {config.vocab_size, config.hidden_size, config.num_hidden_layers,
                               config.attention.heads, config.attention.key_value_heads,
                               config.attention.head_dim, config.max_position_embeddings}) {
    require(extent > 0 && extent < int64_t{1} << 31);
  }
  require(config.attention.heads % config.attention.key_value_heads == 0);
  require(config.attention.head_dim > 0 && config.attention.window >= 0);
  const sftbench::RopeConfig& rope = config.rope;
  require(!config.rotary ||
          (rope.dim > 0 && rope.dim % 2 == 0 && rope.dim <= config.attention.head_dim));
  if (rope.type == sftbench::RopeType::kLong) {
    require(static_cast<int64_t>(rope.long_factors.size()) == rope.dim / 2);
    require(rope.short_factors.size() == rope.long_factors.size());
  }
  require(!config.pad_token_id ||
          (*config.pad_token_id >= 0 && *config.pad_token_id < config.vocab_size));
  require(std::isfinite(config.rope.theta) && config.rope.theta > 1 && config.rope.factor > 0);
  require(config.attention.dropout >= 0 && config.attention.dropout < 1);
  require(config.multipliers.logits > 0);
  require(config.intermediate_size > 0);
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  require(config.mamba_layers.empty() || config.mamba_layers.size() == layers);
  require(config.attention.windowed.empty() || config.attention.windowed.size() == layers);
  require(config.attention.unrotated.empty() || config.attention.unrotated.size() == layers);
  if (config.experts) {
    require(config.experts->width > 0);
    require(config.experts->dense_layers.empty() || config.experts->dense_layers.size() == layers);
    require(config.experts->per_token > 0 && config.experts->per_token <= config.experts->count);
    require(std::isfinite(config.experts->auxiliary_loss));
  }
  if (config.mamba) {
    require(config.mamba->inner() > 0 && config.mamba->heads % config.mamba->groups == 0);
    require(config.mamba->least_step >= 0 && config.mamba->most_step >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_promises(sftbench::parse_model_config(sftbench::parse_json(text, "fuzz"), "fuzz"));
  } catch (const sftbench::InputError& error) {
    require(!error.diagnostics().empty());
  }
  return 0;
}
