#include "ops/rms_norm_impl.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

void forward(const RmsNormInput& input, const Tensor& weight, double epsilon, Tensor& y,
             Tensor& rstd) {
  const Tensor& x = add_up(input);
  const Tensor wide = x.to(rstd.scalar_type());
  rstd.copy_((wide.square().mean(-1) + epsilon).rsqrt());
  y.copy_((wide * rstd.unsqueeze(-1)).to(x.scalar_type()) * weight);
}

RmsNormGradients backward(const Tensor& y_gradient, const Tensor& x_gradient, const Tensor& x,
                          const Tensor& weight, const Tensor& rstd, bool weight_too) {
  const auto wide = rstd.scalar_type();
  const Tensor scale = rstd.unsqueeze(-1);
  const Tensor normalized = x.to(wide) * scale;
  const Tensor dy = y_gradient.to(wide);
  const Tensor dn = dy * weight.to(wide);
  Tensor dx = scale * (dn - normalized * (dn * normalized).mean(-1, /*keepdim=*/true));
  if (x_gradient.defined()) dx.add_(x_gradient);
  return {dx.to(x.scalar_type()), weight_too ? (dy * normalized).sum(0) : Tensor()};
}

}  // namespace

const RmsNormImpl kRmsNormAten{forward, backward};

}  // namespace sftbench::ops
