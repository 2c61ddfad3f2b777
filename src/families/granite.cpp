// Granite 3 (GraniteConfig, GraniteForCausalLM): Llama with four multipliers.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_granite(ConfigFields& fields, ModelConfig& config) {
  read_llama(fields, config);
  config.attention.scale = fields.positive("attention_multiplier", 1.0);
  config.multipliers = {.embedding = fields.positive("embedding_multiplier", 1.0),
                        .residual = fields.positive("residual_multiplier", 1.0),
                        .logits = 1.0 / fields.positive("logits_scaling", 1.0)};
}

}  // namespace

const Family kGraniteFamily = {
    ModelFamily::kGranite, "granite",    "GraniteForCausalLM", "GraniteDecoderLayer",
    kLlamaNames,           read_granite, llama_shape};

}  // namespace sftbench
