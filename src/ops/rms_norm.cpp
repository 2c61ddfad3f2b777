#include "sftbench/ops/rms_norm.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/rms_norm_impl.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const RmsNormImpl& rms_norm_for(const Tensor& x) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kRmsNormCuda;
#endif
  return has_cpu_kernels(x) ? kRmsNormCpu : kRmsNormAten;
}

std::pair<Tensor, Tensor> forward_rows(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor x_rows = rows(x);
  const auto wide = wide_dtype(x);
  Tensor y = torch::empty_like(x_rows);
  Tensor rstd = torch::empty({x_rows.size(0)}, x.options().dtype(wide));
  rms_norm_for(x).forward(x_rows, weight, epsilon, y, rstd);
  return {y.view(x.sizes()), rstd};
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        double epsilon) {
    const auto [y, rstd] = forward_rows(x, weight, epsilon);
    ctx->save_for_backward({x, weight, rstd});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const RmsNormGradients gradients = rms_norm_for(x).backward(
        rows(output_gradients[0]), rows(x), weight, saved[2], weight.requires_grad());
    Tensor weight_gradient;
    if (weight.requires_grad()) {
      weight_gradient = accumulate_gradient(weight, [&](Tensor& target, double beta) {
        beta == 0.0 ? target.copy_(gradients.weight) : target.add_(gradients.weight);
      });
    }
    return {gradients.x.view(x.sizes()), weight_gradient, Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  require_float(x, "rms_norm", "x");
  require(x.dim() >= 1, "rms_norm", "x must be [..., H]", describe(x));
  require_like(weight, "rms_norm", "weight", {x.size(-1)}, x);
  const bool differentiable =
      torch::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  return differentiable ? RmsNorm::apply(x, weight.contiguous(), epsilon)
                        : forward_rows(x, weight.contiguous(), epsilon).first;
}

}  // namespace sftbench::ops
