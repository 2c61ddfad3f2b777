// Shapes: B batch, S sequence, H hidden, N query heads, K key/value heads, D head.
#include "model/attention.h"

#include <tuple>

#include "model/context_attention.h"
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
  if (!rope.cos.defined()) return {q, k};
  const torch::Dtype dtype = q.scalar_type(), table_dtype = rope.cos.scalar_type();
  if (dtype == table_dtype) return kernels.apply_rope(q, k, rope.cos, rope.sin);
  const auto [q_wide, k_wide] =
      kernels.apply_rope(q.to(table_dtype), k.to(table_dtype), rope.cos, rope.sin);
  return {q_wide.to(dtype), k_wide.to(dtype)};
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& config, int64_t layer,
                             const ops::KernelChoice& kernels, const ForwardPass& pass,
                             torch::TensorOptions options)
    : config_(config.attention),
      layer_(static_cast<uint64_t>(layer)),
      window_(config.attention.window_of(layer)),
      kernels_(kernels),
      pass_(pass),
      qkv_(make_linear_group(config.hidden_size,
                             {{"q_proj", config_.query_width()},
                              {"k_proj", config_.key_value_width()},
                              {"v_proj", config_.key_value_width()}},
                             config_.input_bias, config.gptq, options)),
      o_(make_linear_group(config_.query_width(), {{"o_proj", config.hidden_size}},
                           config_.output_bias, config.gptq, options)) {
  if (config_.sinks) sinks_ = torch::empty({config_.heads}, options);
  if (!config_.head_norms) return;
  q_norm_.emplace(config_.head_dim, config.norm_eps, kernels, options);
  k_norm_.emplace(config_.head_dim, config.norm_eps, kernels, options);
}

torch::Tensor SelfAttention::forward(const torch::Tensor& x_BSH, const RotaryTables& rope) const {
  const int64_t B = x_BSH.size(0), S = x_BSH.size(1);
  const std::vector<torch::Tensor> qkv = qkv_.forward(x_BSH);
  torch::Tensor q_BSND = qkv[0].view({B, S, -1, config_.head_dim});
  torch::Tensor k_BSKD = qkv[1].view({B, S, -1, config_.head_dim});
  const torch::Tensor v_BSKD = qkv[2].view({B, S, -1, config_.head_dim});
  if (q_norm_) {
    q_BSND = q_norm_->forward(q_BSND);
    k_BSKD = k_norm_->forward(k_BSKD);
  }
  const auto [q_rotated, k_rotated] = rotate(q_BSND, k_BSKD, rope, kernels_);
  ops::ScoreTerms terms;
  if (sinks_.defined()) terms.sinks = sinks_.to(q_rotated.scalar_type());
  const torch::Tensor mixed_BSND =
      attend(kernels_, rope, q_rotated, k_rotated, v_BSKD, config_.scale, window_,
             dropout_at(config_.dropout, layer_, pass_), terms);
  return o_.forward(mixed_BSND.reshape({B, S, -1}))[0];
}

void SelfAttention::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  const std::string module = name + ".self_attn";
  groups.push_back({&qkv_, qkv_.named_linears(module)});
  groups.push_back({&o_, o_.named_linears(module)});
}

void SelfAttention::append_parameters(const std::string& name,
                                      std::vector<NamedParameter>& parameters) {
  const std::string module = name + ".self_attn";
  qkv_.append_parameters(module, parameters);
  o_.append_parameters(module, parameters);
  if (sinks_.defined()) parameters.push_back({module + ".sinks", &sinks_});
  if (!q_norm_) return;
  q_norm_->append_parameters(module + ".q_norm", parameters);
  k_norm_->append_parameters(module + ".k_norm", parameters);
}

}  // namespace sftbench
