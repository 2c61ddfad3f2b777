// Shapes: B batch, S sequence, N heads, D head.
#include "model/bloom.h"

#include <cmath>

#include "model/context_attention.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

constexpr GptNames kBloomNames = {"input_layernorm", "self_attention",           "query_key_value",
                                  "dense",           "post_attention_layernorm", "dense_h_to_4h",
                                  "dense_4h_to_h"};

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
  const auto wide = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  // Once for all layers and passes: a copy to a GPU makes the host wait.
  if (!slopes_.defined() || slopes_.scalar_type() != wide || slopes_.device() != x.device())
    slopes_ = alibi_slopes(config().attention.heads).to(x.device(), wide);
  return embedding_norm_.forward(x);
}

torch::Tensor Bloom::attend(const torch::Tensor& qkv, const RotaryTables& positions,
                            const ops::Dropout& dropout) const {
  const AttentionConfig& attention = config().attention;
  const int64_t B = qkv.size(0), S = qkv.size(1), N = attention.heads, D = attention.head_dim;
  const torch::Tensor heads_BSN3D = qkv.view({B, S, N, 3, D});
  ops::ScoreTerms terms;
  terms.slopes = slopes_;
  const torch::Tensor mixed =
      sftbench::attend(kernels(), positions, heads_BSN3D.select(3, 0), heads_BSN3D.select(3, 1),
                       heads_BSN3D.select(3, 2), attention.scale, ops::kAllKeys, dropout, terms);
  return mixed.reshape({B, S, N * D});
}

void Bloom::append_first_parameters(std::vector<NamedParameter>& parameters) {
  embedding_norm_.append_parameters("transformer.word_embeddings_layernorm", parameters);
}

}  // namespace sftbench
