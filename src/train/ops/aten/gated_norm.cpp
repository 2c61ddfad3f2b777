#include "ops/gated_norm_impl.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

void forward(const Tensor& y, const Tensor& gate, const Tensor& weight, double epsilon, Tensor& out,
             Tensor& rstd) {
  const auto wide = rstd.scalar_type();
  const Tensor v = y.to(wide) * at::silu(gate.to(wide));
  rstd.copy_((v.square().mean(-1) + epsilon).rsqrt());
  out.copy_(v * rstd.unsqueeze(-1) * weight.to(wide));
}

GatedNormGradients backward(const Tensor& out_gradient, const Tensor& y_any, const Tensor& gate_any,
                            const Tensor& weight, const Tensor& rstd) {
  const auto wide = rstd.scalar_type(), dtype = y_any.scalar_type();
  const Tensor y = y_any.to(wide), gate = gate_any.to(wide), d_out = out_gradient.to(wide);
  const Tensor sigmoid = gate.sigmoid(), silu = gate * sigmoid, scale = rstd.unsqueeze(-1);
  const Tensor normalized = y * silu * scale, dn = d_out * weight.to(wide);
  const Tensor dv = scale * (dn - normalized * (dn * normalized).mean(-1, /*keepdim=*/true));
  const Tensor d_gate = dv * y * sigmoid * (1 + gate * (1 - sigmoid));
  return {(dv * silu).to(dtype), d_gate.to(dtype), (d_out * normalized).sum(0)};
}

}  // namespace

const GatedNormImpl kGatedNormAten{forward, backward};

}  // namespace sftbench::ops
