#include "ops/shapes.h"
#include "ops/swiglu_impl.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

Tensor forward(const Tensor& gate, const Tensor& up) {
  const auto wide = wide_dtype(gate);
  return (at::silu(gate.to(wide)) * up.to(wide)).to(gate.scalar_type());
}

std::pair<Tensor, Tensor> backward(const Tensor& y_gradient, const Tensor& gate_any,
                                   const Tensor& up) {
  const auto dtype = gate_any.scalar_type();
  const auto wide = wide_dtype(gate_any);
  const Tensor gate = gate_any.to(wide), dy = y_gradient.to(wide);
  const Tensor sigmoid = gate.sigmoid();
  const Tensor d_gate = dy * up.to(wide) * sigmoid * (1 + gate * (1 - sigmoid));
  return {d_gate.to(dtype), (dy * gate * sigmoid).to(dtype)};
}

}  // namespace

const SwigluImpl kSwigluAten{forward, backward};

}  // namespace sftbench::ops
