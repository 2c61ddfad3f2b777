#include "sftbench/ops/attention.h"

#include <algorithm>

#include "ops/attention_impl.h"
#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/dropout_mask.h"
#include "ops/aten/library_attention.h"
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
