// Shapes: B batch, S sequence, N heads, D head.
#include "model/bloom.h"

#include <cmath>

#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

constexpr GptNames kBloomNames = {"input_layernorm", "self_attention",           "query_key_value",
                                  "dense",           "post_attention_layernorm", "dense_h_to_4h",
                                  "dense_4h_to_h"};

// Columns beside a head's own: the bias of a key in as many parts as half precision needs to hold
// it, and zeros up to a multiple of what attention kernels want.
constexpr int64_t kBiasParts = 3;
constexpr int64_t kBiasColumns = 8;

// [S, N, kBiasColumns]: columns that add up, times `scale`, to slope * position.
torch::Tensor bias_columns(int64_t length, int64_t heads, double scale,
                           const torch::TensorOptions& options) {
  torch::Tensor rest = torch::arange(length, torch::kFloat64).unsqueeze(1) *
                       alibi_slopes(heads).unsqueeze(0) / scale;
  std::vector<torch::Tensor> columns;
  for (int64_t i = 0; i < kBiasParts; ++i) {
    columns.push_back(rest.to(c10::typeMetaToScalarType(options.dtype())));
    rest = rest - columns.back().to(torch::kFloat64);
  }
  while (static_cast<int64_t>(columns.size()) < kBiasColumns)
    columns.push_back(torch::zeros_like(columns.front()));
  return torch::stack(columns, -1).to(options.device());
}

}  // namespace

torch::Tensor alibi_slopes(int64_t heads) {
  const auto whole = static_cast<int64_t>(std::exp2(std::floor(std::log2(heads))));
  std::vector<double> slopes;
  for (int64_t i = 1; i <= whole; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(whole)));
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(whole)));
  return torch::tensor(slopes, torch::kFloat64);
}

Bloom::Bloom(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Gpt(config, kBloomNames, ParameterStart::kNormal, kernels, options),
      embedding_norm_(config.hidden_size, config.norm_eps, options) {}

torch::Tensor Bloom::begin(const torch::Tensor& x, const TokenRows&) {
  return embedding_norm_.forward(x);
}

// A score's bias, slope * (key - query), is slope * key but for a constant of each query, which the
// softmax does not see. As a product it is one of more columns: ones of the query, the bias of the
// key. Positions may then count from anywhere, also in packed rows.
torch::Tensor Bloom::attend(const torch::Tensor& qkv, const ops::PackedSequences& packed,
                            const ops::Dropout& dropout) const {
  const AttentionConfig& attention = config().attention;
  const int64_t B = qkv.size(0), S = qkv.size(1), N = attention.heads, D = attention.head_dim;
  const torch::Tensor heads_BSN3D = qkv.view({B, S, N, 3, D});
  const torch::Tensor keys = bias_columns(S, N, attention.scale, qkv.options());
  torch::Tensor ones = torch::zeros({kBiasColumns}, qkv.options());
  ones.slice(0, 0, kBiasParts).fill_(1);
  const auto widened = [&](int64_t part, const torch::Tensor& columns) {
    return torch::cat({heads_BSN3D.select(3, part), columns.expand({B, S, N, kBiasColumns})}, -1);
  };
  const torch::Tensor mixed = kernels().causal_attention(
      widened(0, ones), widened(1, keys.unsqueeze(0)), widened(2, torch::zeros_like(ones)),
      attention.scale, ops::kAllKeys, packed, dropout);
  return mixed.slice(-1, 0, D).reshape({B, S, N * D});
}

void Bloom::append_first_parameters(std::vector<NamedParameter>& parameters) {
  embedding_norm_.append_parameters("transformer.word_embeddings_layernorm", parameters);
}

}  // namespace sftbench
