#include "sftbench/ops/attention.h"

#include <algorithm>

#include "ops/aten/library_attention.h"
#include "ops/attention_impl.h"
#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/dropout_mask.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const AttentionImpl& attention_for(const Tensor& x) {
  return has_cpu_kernels(x) ? kAttentionCpu : kAttentionAten;
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        double scale, int64_t window, const std::vector<int64_t>& offsets,
                        const Dropout& dropout) {
    const auto [output, lse] = attention_for(q).forward(q, k, v, scale, window, offsets, dropout);
    ctx->save_for_backward({q, k, v, output, lse});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["dropout"] = dropout.probability;
    ctx->saved_data["seed"] = static_cast<int64_t>(dropout.seed);
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Dropout dropout = {ctx->saved_data["dropout"].toDouble(),
                             static_cast<uint64_t>(ctx->saved_data["seed"].toInt())};
    const auto [q, k, v] = attention_for(saved[0]).backward(
        output_gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4],
        ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt(),
        ctx->saved_data["offsets"].toIntVector(), dropout);
    return {q, k, v, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// lse as an implementation has it <-> [B, H, S]. CPU kernels keep the numbers of each sequence of a
// packed row together.
Tensor by_query(const Tensor& lse, const Tensor& q, const std::vector<int64_t>& offsets) {
  if (offsets.empty() || !has_cpu_kernels(q)) return lse.view({q.size(0), q.size(2), q.size(1)});
  std::vector<Tensor> sequences;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const Tensor own = lse.flatten().slice(0, offsets[i] * q.size(2), offsets[i + 1] * q.size(2));
    sequences.push_back(own.view({1, q.size(2), -1}));
  }
  return torch::cat(sequences, 2);
}

Tensor as_kept(const Tensor& by_query, const Tensor& q, const std::vector<int64_t>& offsets) {
  if (offsets.empty() || !has_cpu_kernels(q)) return by_query.contiguous();
  std::vector<Tensor> sequences;
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    sequences.push_back(by_query.slice(2, offsets[i], offsets[i + 1]).flatten());
  return torch::cat(sequences).view_as(by_query);
}

// A softmax with one more score s is the softmax without it, times exp(lse - lse'), where
// lse' = log(exp(lse) + exp(s)). With lse' and the scaled output the backward pass of attention gives
// the gradients of q, k and v as it is.
class SinkAttention : public torch::autograd::Function<SinkAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& sinks, double scale, int64_t window,
                        const std::vector<int64_t>& offsets) {
    const auto [mixed, lse] = attention_for(q).forward(q, k, v, scale, window, offsets, {});
    const Tensor without = by_query(lse, q, offsets);
    const Tensor with = torch::logaddexp(without, scores_of(sinks, without));
    const Tensor share = torch::exp(without - with).transpose(1, 2).unsqueeze(-1);
    const Tensor output = (mixed * share).to(q.scalar_type());
    ctx->save_for_backward({q, k, v, sinks, output, as_kept(with, q, offsets)});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["offsets"] = offsets;
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &sinks = saved[3], &output = saved[4], &kept = saved[5];
    const std::vector<int64_t> offsets = ctx->saved_data["offsets"].toIntVector();
    const Tensor gradient = output_gradients[0].contiguous();
    const auto [dq, dk, dv] = attention_for(q).backward(
        gradient, q, saved[1], saved[2], output, kept, ctx->saved_data["scale"].toDouble(),
        ctx->saved_data["window"].toInt(), offsets, {});
    const Tensor lse = by_query(kept, q, offsets);
    const Tensor share = torch::exp(scores_of(sinks, lse) - lse);  // of the sink, [B, H, S]
    const Tensor product = (gradient.to(lse.scalar_type()) * output).sum(-1).transpose(1, 2);
    const std::vector<int64_t> all_but_heads = {0, 2};
    const Tensor dsinks = -(share * product).sum(all_but_heads).to(sinks.scalar_type());
    return {dq, dk, dv, dsinks, Tensor(), Tensor(), Tensor()};
  }

 private:
  static Tensor scores_of(const Tensor& sinks, const Tensor& like) {
    return sinks.to(like.scalar_type()).view({1, -1, 1});
  }
};

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
  require_float(q, "causal_attention", "q");
  require(q.dim() == 4, "causal_attention", "q must be [B, S, H, D]", describe(q));
  require_like(k, "causal_attention", "k", {q.size(0), q.size(1), -1, q.size(3)}, q);
  require_like(v, "causal_attention", "v", k.sizes().vec(), q);
  require(
      k.size(2) > 0 && q.size(2) % k.size(2) == 0, "causal_attention",
      "the number of key/value heads must divide the " + std::to_string(q.size(2)) + " query heads",
      std::to_string(k.size(2)));
  require(window >= 0, "causal_attention", "window must be 0 or more", std::to_string(window));
}

}  // namespace

PackedSequences packed_sequences(const std::vector<int64_t>& lengths, torch::Device device) {
  PackedSequences packed;
  if (lengths.empty()) return packed;
  packed.offsets = {0};
  for (const int64_t length : lengths) {
    require(length > 0, "packed_sequences", "every length must be above 0", std::to_string(length));
    packed.offsets.push_back(packed.offsets.back() + length);
    packed.longest = std::max(packed.longest, length);
  }
  packed.cumulative = torch::tensor(packed.offsets, torch::kInt32).to(device);
  return packed;
}

Tensor sink_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sinks,
                      double scale, int64_t window, const PackedSequences& packed) {
  check_shapes(q, k, v, window);
  require_like(sinks, "sink_attention", "sinks", {q.size(2)}, q);
  require_packed(packed, "sink_attention", "q", q);
  return SinkAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), sinks, scale, window,
                              packed.offsets);
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        int64_t window, const PackedSequences& packed, const Dropout& dropout) {
  check_shapes(q, k, v, window);
  require_packed(packed, "causal_attention", "q", q);
  require_probability(dropout, "causal_attention");
  if (has_library_attention(q, window, packed))
    return library_attention(q, k, v, scale, window, packed, dropout);
  const Tensor qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
  const bool differentiable = torch::GradMode::is_enabled() &&
                              (q.requires_grad() || k.requires_grad() || v.requires_grad());
  return differentiable
             ? CausalAttention::apply(qc, kc, vc, scale, window, packed.offsets, dropout)
             : attention_for(q).forward(qc, kc, vc, scale, window, packed.offsets, dropout).first;
}

}  // namespace sftbench::ops
