#include "sftbench/ops/attention.h"

#include <torch/torch.h>

#include "ops/attention_impl.h"
#include "ops/checks.h"
#include "ops/cpu_dispatch.h"
#include "ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const AttentionImpl& implementation(const Tensor& x) {
  return has_cpu_kernels(x) ? kAttentionCpu : kAttentionAten;
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        double scale, int64_t window) {
    const auto [output, lse] = implementation(q).forward(q, k, v, scale, window);
    ctx->save_for_backward({q, k, v, output, lse});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [q, k, v] = implementation(saved[0]).backward(
        output_gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4],
        ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt());
    return {q, k, v, Tensor(), Tensor()};
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

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        int64_t window) {
  check_shapes(q, k, v, window);
  if (has_library_attention(q, window)) return library_attention(q, k, v, scale);
  const Tensor qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
  const bool differentiable = torch::GradMode::is_enabled() &&
                              (q.requires_grad() || k.requires_grad() || v.requires_grad());
  return differentiable ? CausalAttention::apply(qc, kc, vc, scale, window)
                        : implementation(q).forward(qc, kc, vc, scale, window).first;
}

}  // namespace sftbench::ops
