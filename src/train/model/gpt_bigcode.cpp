// Shapes: B batch, S sequence, H hidden, N query heads, K heads of keys and values, D head.
#include "model/gpt_bigcode.h"

#include "model/context_attention.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

constexpr GptNames kGptBigCodeNames = {"ln_1", "attn", "c_attn", "c_proj",
                                       "ln_2", "c_fc", "c_proj"};

}  // namespace

GptBigCode::GptBigCode(const ModelConfig& config, const ops::KernelChoice& kernels,
                       torch::TensorOptions options)
    : Gpt(config, kGptBigCodeNames, ParameterStart::kNormalResidual, kernels, options),
      positions_(torch::empty({config.max_position_embeddings, config.hidden_size}, options)) {}

torch::Tensor GptBigCode::begin(const torch::Tensor& x_BSH, const TokenRows& rows) {
  const int64_t row_length = rows.row_length(x_BSH.size(1));
  const int64_t length = rows.packed.empty() ? row_length : rows.packed.longest;
  if (length > positions_.size(0)) {
    throw RunError(ReasonCode::kUnsupported,
                   "a row of " + counted(length, "token") + ": the model has learned " +
                       std::to_string(positions_.size(0)) +
                       " positions (n_positions of config.json); model_max_length " +
                       std::to_string(positions_.size(0)) + " works");
  }
  const torch::Tensor numbers = own_positions(row_length, rows.packed, rows.part, x_BSH.device())
                                    .slice(0, rows.positions_before());
  const torch::Tensor embedded_1SH = ops::embedding(numbers.unsqueeze(0), positions_);
  return ops::dropout(x_BSH + embedded_1SH.to(x_BSH.scalar_type()),
                      dropout_at(config().embedding_dropout, kEmbeddingPlace, pass()));
}

torch::Tensor GptBigCode::attend(const torch::Tensor& qkv, const RotaryTables& positions,
                                 const ops::Dropout& dropout) const {
  const AttentionConfig& attention = config().attention;
  const int64_t B = qkv.size(0), S = qkv.size(1), N = attention.heads, D = attention.head_dim;
  torch::Tensor q, k, v;
  if (attention.qkv_form == QkvForm::kInBlocks) {
    const int64_t K = attention.key_value_heads;
    q = qkv.slice(-1, 0, N * D).view({B, S, N, D});
    k = qkv.slice(-1, N * D, (N + K) * D).view({B, S, K, D});
    v = qkv.slice(-1, (N + K) * D).view({B, S, K, D});
  } else {  // each head has its query, key and value side by side
    const torch::Tensor heads = qkv.view({B, S, N, 3 * D});
    q = heads.slice(-1, 0, D);
    k = heads.slice(-1, D, 2 * D);
    v = heads.slice(-1, 2 * D);
  }
  return sftbench::attend(kernels(), positions, q, k, v, attention.scale, ops::kAllKeys, dropout,
                          {})
      .reshape({B, S, N * D});
}

void GptBigCode::append_first_parameters(std::vector<NamedParameter>& parameters) {
  parameters.push_back({"transformer.wpe.weight", &positions_});
}

}  // namespace sftbench
