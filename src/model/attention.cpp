// Shapes: B batch, S sequence, H hidden, N query heads, K key/value heads, D head.
#include "model/attention.h"

#include <tuple>

#include "model/layers.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/ops.h"

namespace sftbench {
namespace {

// Under autocast the tables keep the residual stream's float32 while queries and keys come out of
// their GEMMs in half precision: Hugging Face then rotates in float32 and rounds once, on the way
// into the attention.
std::tuple<torch::Tensor, torch::Tensor> rotate(const torch::Tensor& q, const torch::Tensor& k,
                                                const RotaryTables& rope,
                                                const ops::KernelChoice& kernels) {
  const torch::Dtype dtype = q.scalar_type(), table_dtype = rope.cos.scalar_type();
  if (dtype == table_dtype) return kernels.apply_rope(q, k, rope.cos, rope.sin);
  const auto [q_wide, k_wide] =
      kernels.apply_rope(q.to(table_dtype), k.to(table_dtype), rope.cos, rope.sin);
  return {q_wide.to(dtype), k_wide.to(dtype)};
}

int64_t query_width(const ModelConfig& config) {
  return config.num_attention_heads * config.head_dim;
}

int64_t key_width(const ModelConfig& config) {
  return config.num_key_value_heads * config.head_dim;
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& config, double scale, int64_t window,
                             const ops::KernelChoice& kernels, const AttentionDropout& dropout,
                             torch::TensorOptions options)
    : head_dim_(config.head_dim),
      scale_(scale),
      window_(window),
      kernels_(kernels),
      dropout_(dropout),
      qkv_(make_linear_group(config.hidden_size,
                             {{"q_proj", query_width(config)},
                              {"k_proj", key_width(config)},
                              {"v_proj", key_width(config)}},
                             config.attention_bias, config.gptq, options)),
      o_(make_linear_group(query_width(config), {{"o_proj", config.hidden_size}},
                           config.attention_bias, config.gptq, options)) {}

ops::Dropout SelfAttention::dropout() const {
  const ForwardPass& pass = *dropout_.pass;
  if (!pass.training || dropout_.probability == 0) return {};
  const uint64_t of_layer = ops::derived_seed(pass.seed, dropout_.layer);
  return {dropout_.probability, ops::derived_seed(of_layer, static_cast<uint64_t>(pass.number))};
}

torch::Tensor SelfAttention::forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const {
  const int64_t B = x_BSH.size(0), S = x_BSH.size(1);
  const std::vector<torch::Tensor> qkv = qkv_.forward(x_BSH);
  const torch::Tensor q_BSND = qkv[0].view({B, S, -1, head_dim_});
  const torch::Tensor k_BSKD = qkv[1].view({B, S, -1, head_dim_});
  const torch::Tensor v_BSKD = qkv[2].view({B, S, -1, head_dim_});
  const auto [q_rotated, k_rotated] = rotate(q_BSND, k_BSKD, rope, kernels_);
  const torch::Tensor mixed_BSND = kernels_.causal_attention(q_rotated, k_rotated, v_BSKD, scale_,
                                                             window_, rope.packed, dropout());
  return o_.forward(mixed_BSND.reshape({B, S, -1}))[0];
}

void SelfAttention::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  groups.push_back({&qkv_, qkv_.named_linears(name)});
  groups.push_back({&o_, o_.named_linears(name)});
}

void SelfAttention::append_parameters(const std::string& name,
                                      std::vector<NamedParameter>& parameters) {
  qkv_.append_parameters(name, parameters);
  o_.append_parameters(name, parameters);
}

}  // namespace sftbench
