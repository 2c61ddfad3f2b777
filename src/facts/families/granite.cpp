// Granite 3 (GraniteConfig, GraniteForCausalLM): Llama with four multipliers.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_granite(ConfigFields& fields, ModelConfig& config) {
  read_llama(fields, config);
  read_granite_multipliers(fields, config);
}

}  // namespace

const Family kGraniteFamily = {"granite",   "GraniteForCausalLM", "GraniteDecoderLayer",
                               kLlamaNames, read_granite,         llama_shape};

}  // namespace sftbench
