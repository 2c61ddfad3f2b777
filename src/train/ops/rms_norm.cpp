#include "sftbench/ops/rms_norm.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/rms_norm_impl.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/torch_version.h"

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

struct Normed {
  Tensor sum, y, rstd;  // sum: what was normalized
};

// Of a weight that is wider than x the norm is that of x in the weight's dtype.
Normed forward_rows(const Tensor& x, const Tensor& addend, double scale, const Tensor& weight,
                    double epsilon) {
  if (weight.scalar_type() != x.scalar_type()) {
    const Tensor sum = addend.defined() ? x.add(addend, scale) : x;
    const Normed wide = forward_rows(sum.to(weight.scalar_type()), {}, 1, weight, epsilon);
    return {sum, wide.y.to(x.scalar_type()), wide.rstd};
  }
  RmsNormInput input = {rows(x), {}, {}, scale};
  if (addend.defined()) {
    input.addend = rows(addend);
    input.sum = torch::empty_like(input.x);
  }
  Tensor y = torch::empty_like(input.x);
  Tensor rstd = torch::empty({input.x.size(0)}, x.options().dtype(wide_dtype(x)));
  rms_norm_for(x).forward(input, weight, epsilon, y, rstd);
  return {addend.defined() ? input.sum.view(x.sizes()) : x, y.view(x.sizes()), rstd};
}

struct Gradients {
  Tensor x, weight;  // weight: what autograd adds to it, undefined for a leaf
};

// saved: what was normalized, weight, rstd.
Gradients backward_rows(const variable_list& saved, const Tensor& y_gradient,
                        const Tensor& x_gradient) {
  const Tensor& weight = saved[1];
  const Tensor x = saved[0].to(weight.scalar_type());
  const auto own_rows = [&](const Tensor& of) {
    return of.defined() ? rows(of.to(weight.scalar_type())) : of;
  };
  const RmsNormGradients gradients =
      rms_norm_for(x).backward(own_rows(y_gradient), own_rows(x_gradient), rows(x), weight,
                               saved[2], weight.requires_grad());
  Tensor weight_gradient;
  if (weight.requires_grad()) {
    weight_gradient = accumulate_gradient(weight, [&](Tensor& target, double beta) {
      beta == 0.0 ? target.copy_(gradients.weight) : target.add_(gradients.weight);
    });
  }
  return {gradients.x.view(x.sizes()).to(saved[0].scalar_type()), weight_gradient};
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        double epsilon) {
    const Normed normed = forward_rows(x, {}, 1, weight, epsilon);
    ctx->save_for_backward({x, weight, normed.rstd});
    return normed.y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const Gradients gradients = backward_rows(ctx->get_saved_variables(), output_gradients[0], {});
    return {gradients.x, gradients.weight, Tensor()};
  }
};

class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const OptionalTensor& addend,
                               double scale, const Tensor& weight, double epsilon) {
    const Normed normed = forward_rows(x, addend.value_or(Tensor()), scale, weight, epsilon);
    ctx->save_for_backward({normed.sum, weight, normed.rstd});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["addend_requires_grad"] = addend && addend->requires_grad();
    ctx->set_materialize_grads(false);
    return {normed.sum, normed.y};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const Tensor &of_sum = output_gradients[0], &of_normed = output_gradients[1];
    const double scale = ctx->saved_data["scale"].toDouble();
    Gradients gradients;
    if (of_normed.defined()) {
      gradients = backward_rows(ctx->get_saved_variables(), of_normed, of_sum);
    } else {
      gradients.x = of_sum;
    }
    Tensor of_addend;
    if (ctx->saved_data["addend_requires_grad"].toBool() && gradients.x.defined())
      of_addend = scale == 1 ? gradients.x : gradients.x * scale;
    return {gradients.x, of_addend, Tensor(), gradients.weight, Tensor()};
  }
};

void check_shapes(const char* op, const Tensor& x, const Tensor& weight) {
  require_float(x, op, "x");
  require(x.dim() >= 1, op, "x must be [..., H]", describe(x));
  const bool is_wide = weight.scalar_type() == wide_dtype(x);
  require_like(weight, op, "weight", {x.size(-1)}, is_wide ? weight : x);
}

}  // namespace

const Tensor& add_up(const RmsNormInput& input) {
  if (!input.addend.defined()) return input.x;
  Tensor sum = input.sum;
  at::add_out(sum, input.x, input.addend, input.scale);
  return input.sum;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  check_shapes("rms_norm", x, weight);
  const bool differentiable =
      torch::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad());
  return differentiable ? RmsNorm::apply(x, weight.contiguous(), epsilon)
                        : forward_rows(x, {}, 1, weight.contiguous(), epsilon).y;
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& addend, double scale, const Tensor& weight,
                       double epsilon) {
  constexpr const char* kSum = "add_rms_norm";
  check_shapes(kSum, x, weight);
  if (addend.defined()) require_like(addend, kSum, "addend", x.sizes().vec(), x);
  const bool differentiable =
      torch::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (addend.defined() && addend.requires_grad()));
  if (!differentiable) {
    const Normed normed = forward_rows(x, addend, scale, weight.contiguous(), epsilon);
    return {normed.sum, normed.y};
  }
  const variable_list outputs =
      AddRmsNorm::apply(x, addend.defined() ? OptionalTensor(addend) : OptionalTensor(), scale,
                        weight.contiguous(), epsilon);
  return {outputs[0], outputs[1]};
}

}  // namespace sftbench::ops
