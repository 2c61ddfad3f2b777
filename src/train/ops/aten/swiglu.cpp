#include "ops/shapes.h"
#include "ops/swiglu_impl.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

const char* name_of(GateForm form) {
  return form == GateForm::kGeluTanh ? "tanh" : "none";
}

Tensor activated(const Tensor& gate, GateForm form) {
  return form == GateForm::kSilu ? at::silu(gate) : at::gelu(gate, name_of(form));
}

void forward(const GateAndUp& in, GateForm form, const Tensor& y) {
  const auto wide = wide_dtype(y);
  y.copy_(activated(in.gate.to(wide), form) * in.up.to(wide));
}

void backward(const Tensor& y_gradient, const GateAndUp& in, GateForm form, const GateAndUp& into) {
  const auto wide = wide_dtype(y_gradient);
  const Tensor gate = in.gate.to(wide), dy = y_gradient.to(wide);
  const Tensor of_gate = dy * in.up.to(wide);
  into.gate.copy_(form == GateForm::kSilu ? at::silu_backward(of_gate, gate)
                                          : at::gelu_backward(of_gate, gate, name_of(form)));
  into.up.copy_(dy * activated(gate, form));
}

}  // namespace

const SwigluImpl kSwigluAten{forward, backward};

}  // namespace sftbench::ops
