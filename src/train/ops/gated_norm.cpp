#include "sftbench/ops/gated_norm.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/gated_norm_impl.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const GatedNormImpl& gated_norm_for(const Tensor& y) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(y)) return kGatedNormCuda;
#endif
  return has_cpu_kernels(y) ? kGatedNormCpu : kGatedNormAten;
}

// [..., I] as [N, G, W]. Copies only what no stride can describe.
Tensor by_group(const Tensor& tensor, int64_t groups) {
  const int64_t width = tensor.size(-1) / groups;
  return tensor.reshape({-1, tensor.size(-1)}).unflatten(1, {groups, width});
}

Tensor gate_rows(const Tensor& gate, int64_t groups) {
  const Tensor rows = by_group(gate, groups);
  return rows.stride(2) == 1 ? rows : rows.contiguous();
}

Tensor wide_weight(const Tensor& weight, int64_t groups) {
  return weight.detach().to(wide_dtype(weight)).reshape({groups, -1}).contiguous();
}

std::pair<Tensor, Tensor> forward_rows(const Tensor& y, const Tensor& gate, const Tensor& weight,
                                       int64_t groups, double epsilon) {
  const Tensor rows = by_group(y, groups).contiguous();
  Tensor out = torch::empty(rows.sizes(), rows.options());
  Tensor rstd = torch::empty({rows.size(0), groups}, rows.options().dtype(wide_dtype(y)));
  gated_norm_for(y).forward(rows, gate_rows(gate, groups), wide_weight(weight, groups), epsilon,
                            out, rstd);
  return {out.view(y.sizes()), rstd};
}

class GatedNorm : public torch::autograd::Function<GatedNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& gate,
                        const Tensor& weight, int64_t groups, double epsilon) {
    const auto [out, rstd] = forward_rows(y, gate, weight, groups, epsilon);
    ctx->save_for_backward({y, gate, weight, rstd});
    ctx->saved_data["groups"] = groups;
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &y = saved[0], &gate = saved[1], &weight = saved[2];
    const int64_t groups = ctx->saved_data["groups"].toInt();
    const GatedNormGradients found = gated_norm_for(y).backward(
        by_group(output_gradients[0], groups).contiguous(), by_group(y, groups).contiguous(),
        gate_rows(gate, groups), wide_weight(weight, groups), saved[3]);
    return {found.y.view(y.sizes()), found.gate.view(gate.sizes()),
            found.weight.view(weight.sizes()).to(weight.scalar_type()), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor gated_rms_norm(const Tensor& y, const Tensor& gate, const Tensor& weight, int64_t groups,
                      double epsilon) {
  const char* const op = "gated_rms_norm";
  require_float(y, op, "y");
  require(y.dim() >= 1 && groups > 0 && y.size(-1) % groups == 0, op,
          "y must be [..., I] with I a multiple of the " + std::to_string(groups) + " groups",
          describe(y));
  require_like(gate, op, "gate", y.sizes().vec(), y);
  const bool wide = weight.defined() && weight.scalar_type() == torch::kFloat32;
  require_like(weight, op, "weight", {y.size(-1)},
               wide ? torch::empty({0}, y.options().dtype(torch::kFloat32)) : y);
  if (y.numel() == 0) return y * gate * weight.to(y.scalar_type());
  const bool differentiable = torch::GradMode::is_enabled() &&
                              (y.requires_grad() || gate.requires_grad() || weight.requires_grad());
  return differentiable ? GatedNorm::apply(y, gate, weight, groups, epsilon)
                        : forward_rows(y, gate, weight, groups, epsilon).first;
}

}  // namespace sftbench::ops
