// GPT-2 (Radford et al. 2019; GPT2Config, GPT2LMHeadModel): learned positions, and linears whose
// weights are stored as [in, out].
#include "families/config_fields.h"
#include "families/config_parts.h"
#include "families/gpt_bigcode.h"
#include "families/llama.h"

namespace sftbench {
namespace {

constexpr ModelNames kGpt2Names = {"transformer.wte", "transformer.h.", "transformer.ln_f",
                                   "lm_head"};

// Checkpoints of the model without its head, as the published ones are, name no "transformer".
std::string canonical_gpt2_name(const std::string& stored) {
  for (const char* part : {"wte.", "wpe.", "h.", "ln_f."})
    if (stored.starts_with(part)) return "transformer." + stored;
  return stored;
}

void read_gpt2(ConfigFields& fields, ModelConfig& config) {
  read_learned_positions(fields, config);
  config.attention.qkv_form = QkvForm::kInBlocks;
  config.transposed_linears = true;
  read_activation(fields, config, "activation_function", "gelu_new");
  if (fields.boolean("scale_attn_by_inverse_layer_idx", false)) {
    fields.add("scale_attn_by_inverse_layer_idx", "found true", "false");
  }
}

}  // namespace

const Family kGpt2Family = {
    "gpt2",    "GPT2LMHeadModel",       "GPT2Block",         kGpt2Names,
    read_gpt2, learned_positions_shape, canonical_gpt2_name, ModelClass::kGptBigCode};

}  // namespace sftbench
