// Mixtral (Jiang et al. 2024; MixtralConfig, MixtralForCausalLM): Mistral with a mixture of
// experts, each expert's matrices in tensors of their own.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_mixtral(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kKeyValueHeads = 8;
  read_sizes(fields, config, /*max_position_embeddings=*/131072);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_heads(fields, config, {.key_value_heads = kKeyValueHeads});
  config.attention.window = fields.extent("sliding_window", 0);
  require_silu(fields);
  read_experts(fields, config);
  config.experts->storage = ExpertStorage::kApart;
  config.experts->softmax_over_all = true;
  if (fields.number("router_jitter_noise", 0.0, -1e-300, "a number of at least 0") > 0) {
    fields.add("router_jitter_noise", "found " + shown(*fields.find("router_jitter_noise")),
               "0: inputs of the router are not changed at random");
  }
  constexpr double kDefaultTheta = 1e6;
  read_rope(fields, config, {.theta = kDefaultTheta});
}

}  // namespace

const Family kMixtralFamily = {"mixtral",   "MixtralForCausalLM", "MixtralDecoderLayer",
                               kLlamaNames, read_mixtral,         llama_shape};

}  // namespace sftbench
