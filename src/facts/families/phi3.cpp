// Phi 3 and 4 (Abdin et al. 2024; Phi3Config, Phi3ForCausalLM): Llama with one linear for queries,
// keys and values, and one for gate and up. LongRoPE (Ding et al. 2024) stretches each pair for
// itself.
#include "families/config_parts.h"
#include "families/llama.h"

namespace sftbench {
namespace {

void read_phi3(ConfigFields& fields, ModelConfig& config) {
  constexpr int64_t kOriginalLength = 4096, kPaddingRow = 32000;
  read_sizes(fields, config, /*max_position_embeddings=*/4096);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-5);
  read_embedding(fields, config, /*tied_by_default=*/false, kPaddingRow);
  read_heads(fields, config);
  config.attention.qkv_form = QkvForm::kInBlocks;
  config.mlp.form = MlpForm::kGatedInOne;
  require_silu(fields);
  read_window(fields, config, 0);
  // embd_pdrop is a field of the class that its model does not read.
  config.residual_dropout = read_dropout(fields, "resid_pdrop", 0.0);
  read_rope(fields, config, {.share = 1.0, .original_length = kOriginalLength});
  if (config.rope.type != RopeType::kDefault && config.rope.type != RopeType::kLong)
    fields.add("rope_type", "found a type that the class refuses", "default or longrope");
}

}  // namespace

const Family kPhi3Family = {"phi3",      "Phi3ForCausalLM", "Phi3DecoderLayer",
                            kLlamaNames, read_phi3,         llama_shape};

}  // namespace sftbench
