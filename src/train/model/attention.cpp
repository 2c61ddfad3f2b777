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

using torch::Tensor;

// Under autocast the tables keep the residual stream's float32 while queries and keys come out of
// their GEMMs in half precision: Hugging Face then rotates in float32 and rounds once, on the way
// into the attention.
std::tuple<Tensor, Tensor> rotated(const Tensor& q, const Tensor& k, const Tensor& cos,
                                   const Tensor& sin, const ops::KernelChoice& kernels) {
  const torch::Dtype dtype = q.scalar_type(), table_dtype = cos.scalar_type();
  if (dtype == table_dtype) return kernels.apply_rope(q, k, cos, sin);
  const auto [q_wide, k_wide] = kernels.apply_rope(q.to(table_dtype), k.to(table_dtype), cos, sin);
  return {q_wide.to(dtype), k_wide.to(dtype)};
}

// Neighbors come to stand half a head apart. Scores do not see in which order queries and keys have
// their values.
Tensor apart(const Tensor& heads) {
  return heads.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
}

std::vector<LinearOutput> qkv_outputs(const AttentionConfig& attention) {
  const int64_t queries = attention.query_width(), keys = attention.key_value_width();
  if (attention.qkv_form == QkvForm::kApart)
    return {{"q_proj", queries}, {"k_proj", keys}, {"v_proj", keys}};
  return {{attention.qkv, queries + 2 * keys}};
}

}  // namespace

SelfAttention::SelfAttention(const ModelConfig& config, int64_t layer,
                             const ops::KernelChoice& kernels, const ForwardPass& pass,
                             torch::TensorOptions options)
    : config_(config.attention),
      layer_(static_cast<uint64_t>(layer)),
      window_(config.attention.window_of(layer)),
      local_rope_(config.local_rope && window_ > 0),
      kernels_(kernels),
      pass_(pass),
      qkv_(make_linear_group(config.hidden_size, qkv_outputs(config_), config_.input_bias, config,
                             options)),
      o_(make_linear_group(config_.query_width(), {{config_.output, config.hidden_size}},
                           config_.output_bias, config, options)) {
  if (config_.sinks) sinks_ = torch::empty({config_.heads}, options);
  if (config_.norms == QkNorms::kNone) return;
  const bool of_all = config_.norms == QkNorms::kOfAll;
  q_norm_.emplace(of_all ? config_.query_width() : config_.head_dim, config, kernels, options);
  k_norm_.emplace(of_all ? config_.key_value_width() : config_.head_dim, config, kernels, options);
}

SelfAttention::Heads SelfAttention::heads_of(const std::vector<Tensor>& products) const {
  const int64_t D = config_.head_dim;
  if (config_.qkv_form == QkvForm::kByHead) {
    const Tensor by_head = products[0].unflatten(-1, {-1, 3 * D});
    return {by_head.narrow(-1, 0, D), by_head.narrow(-1, D, D), by_head.narrow(-1, 2 * D, D)};
  }
  std::vector<Tensor> qkv = products;
  if (config_.qkv_form == QkvForm::kInBlocks) {
    const int64_t queries = config_.query_width(), keys = config_.key_value_width();
    qkv = products[0].split_with_sizes({queries, keys, keys}, -1);
  }
  const bool of_all = config_.norms == QkNorms::kOfAll;
  const auto heads = [D](const Tensor& x) { return x.unflatten(-1, {-1, D}); };
  return {heads(of_all ? q_norm_->forward(qkv[0]) : qkv[0]),
          heads(of_all ? k_norm_->forward(qkv[1]) : qkv[1]), heads(qkv[2])};
}

// Of the first values of each head, as many as the tables have angles for.
void SelfAttention::rotate(Heads& heads, const RotaryTables& rope) const {
  const Tensor &cos = local_rope_ ? rope.local_cos : rope.cos,
               &sin = local_rope_ ? rope.local_sin : rope.sin;
  if (!cos.defined() || !config_.rotates(static_cast<int64_t>(layer_))) return;
  const int64_t turned = 2 * cos.size(-1), left = config_.head_dim - turned;
  Tensor q = left > 0 ? heads.q.narrow(-1, 0, turned) : heads.q;
  Tensor k = left > 0 ? heads.k.narrow(-1, 0, turned) : heads.k;
  if (config_.rotates_neighbors) q = apart(q), k = apart(k);
  std::tie(q, k) = rotated(q, k, cos, sin, kernels_);
  const auto whole = [&](const Tensor& first, const Tensor& head) {
    return left > 0 ? torch::cat({first, head.narrow(-1, turned, left)}, -1) : first;
  };
  heads.q = whole(q, heads.q);
  if (rope.query_scale.defined()) heads.q = heads.q * rope.query_scale.to(heads.q.scalar_type());
  heads.k = whole(k, heads.k);
  // A view would keep all of the product that queries and keys were turned out of.
  if (config_.qkv_form != QkvForm::kApart) heads.v = heads.v.contiguous();
}

Tensor SelfAttention::forward(const Tensor& x_BSH, const RotaryTables& rope) const {
  Heads heads = heads_of(qkv_.forward(x_BSH));
  if (config_.norms == QkNorms::kOfHeads) {
    heads.q = q_norm_->forward(heads.q);
    heads.k = k_norm_->forward(heads.k);
  }
  rotate(heads, rope);
  ops::ScoreTerms terms;
  if (sinks_.defined()) terms.sinks = sinks_.to(heads.q.scalar_type());
  terms.cap = config_.score_cap;
  const Tensor mixed_BSND = attend(kernels_, rope, heads.q, heads.k, heads.v, config_.scale,
                                   window_, dropout_at(config_.dropout, layer_, pass_), terms);
  return o_.forward(mixed_BSND.flatten(-2))[0];
}

void SelfAttention::append_groups(const std::string& name, std::vector<NamedLinearGroup>& groups) {
  const std::string module = name + "." + config_.module;
  groups.push_back({&qkv_, qkv_.named_linears(module)});
  groups.push_back({&o_, o_.named_linears(module)});
}

void SelfAttention::append_parameters(const std::string& name,
                                      std::vector<NamedParameter>& parameters) {
  const std::string module = name + "." + config_.module;
  qkv_.append_parameters(module, parameters);
  o_.append_parameters(module, parameters);
  if (sinks_.defined()) parameters.push_back({module + ".sinks", &sinks_});
  if (!q_norm_) return;
  q_norm_->append_parameters(module + ".q_norm", parameters);
  k_norm_->append_parameters(module + ".k_norm", parameters);
}

}  // namespace sftbench
