#include "ops/shapes.h"
#include "ops/swiglu_impl.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

void forward(const GateAndUp& in, const Tensor& y) {
  const auto wide = wide_dtype(y);
  y.copy_(at::silu(in.gate.to(wide)) * in.up.to(wide));
}

void backward(const Tensor& y_gradient, const GateAndUp& in, const GateAndUp& into) {
  const auto wide = wide_dtype(y_gradient);
  const Tensor gate = in.gate.to(wide), dy = y_gradient.to(wide);
  const Tensor sigmoid = gate.sigmoid();
  into.gate.copy_(dy * in.up.to(wide) * sigmoid * (1 + gate * (1 - sigmoid)));
  into.up.copy_(dy * gate * sigmoid);
}

}  // namespace

const SwigluImpl kSwigluAten{forward, backward};

}  // namespace sftbench::ops
