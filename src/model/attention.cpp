// Shapes: B batch, S sequence, H hidden, N query heads, K key/value heads, D head.
#include "model/attention.h"

#include <torch/torch.h>

#include <tuple>

#include "model/layers.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

// Under autocast the tables keep the residual stream's float32 while queries and keys come out of
// their GEMMs in half precision: Hugging Face then rotates in float32 and rounds once, on the way
// into the attention.
std::tuple<torch::Tensor, torch::Tensor> rotate(const torch::Tensor& q, const torch::Tensor& k,
                                                const RotaryTables& rope) {
  const torch::Dtype dtype = q.scalar_type(), table_dtype = rope.cos.scalar_type();
  if (dtype == table_dtype) return ops::apply_rope(q, k, rope.cos, rope.sin);
  const auto [q_wide, k_wide] =
      ops::apply_rope(q.to(table_dtype), k.to(table_dtype), rope.cos, rope.sin);
  return {q_wide.to(dtype), k_wide.to(dtype)};
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& config, double scale, int64_t window,
                             torch::TensorOptions options)
    : head_dim_(config.head_dim), scale_(scale), window_(window) {
  const int64_t hidden = config.hidden_size;
  const int64_t query_width = config.num_attention_heads * head_dim_;
  const int64_t key_width = config.num_key_value_heads * head_dim_;
  const bool bias = config.attention_bias;
  q_proj_ = std::make_unique<DenseLinear>(hidden, query_width, bias, options);
  k_proj_ = std::make_unique<DenseLinear>(hidden, key_width, bias, options);
  v_proj_ = std::make_unique<DenseLinear>(hidden, key_width, bias, options);
  o_proj_ = std::make_unique<DenseLinear>(query_width, hidden, bias, options);
}

torch::Tensor SelfAttention::forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const {
  const int64_t B = x_BSH.size(0), S = x_BSH.size(1);
  const torch::Tensor q_BSND = q_proj_->forward(x_BSH).view({B, S, -1, head_dim_});
  const torch::Tensor k_BSKD = k_proj_->forward(x_BSH).view({B, S, -1, head_dim_});
  const torch::Tensor v_BSKD = v_proj_->forward(x_BSH).view({B, S, -1, head_dim_});
  const auto [q_rotated, k_rotated] = rotate(q_BSND, k_BSKD, rope);
  const torch::Tensor mixed_BSND =
      ops::causal_attention(q_rotated, k_rotated, v_BSKD, scale_, window_);
  return o_proj_->forward(mixed_BSND.reshape({B, S, -1}));
}

void SelfAttention::append_linears(const std::string& name, std::vector<NamedLinear>& linears) {
  linears.push_back({name + ".q_proj", &q_proj_});
  linears.push_back({name + ".k_proj", &k_proj_});
  linears.push_back({name + ".v_proj", &v_proj_});
  linears.push_back({name + ".o_proj", &o_proj_});
}

}  // namespace sftbench
