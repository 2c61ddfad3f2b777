#include "sftbench/ops/swiglu.h"

#include <torch/torch.h>

#include "ops/checks.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Dtype wide_dtype(const Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

Tensor forward_all(const Tensor& gate, const Tensor& up) {
  const auto wide = wide_dtype(gate);
  return (at::silu(gate.to(wide)) * up.to(wide)).to(gate.scalar_type());
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    ctx->save_for_backward({gate, up});
    return forward_all(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const auto dtype = saved[0].scalar_type();
    const auto wide = wide_dtype(saved[0]);
    const Tensor gate = saved[0].to(wide);
    const Tensor dy = output_gradients[0].to(wide);
    const Tensor sigmoid = gate.sigmoid();
    const Tensor d_gate = dy * saved[1].to(wide) * sigmoid * (1 + gate * (1 - sigmoid));
    return {d_gate.to(dtype), (dy * gate * sigmoid).to(dtype)};
  }
};

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  require_float(gate, "swiglu", "gate");
  require_like(up, "swiglu", "up", gate.sizes().vec(), gate);
  const bool differentiable =
      torch::GradMode::is_enabled() && (gate.requires_grad() || up.requires_grad());
  return differentiable ? Swiglu::apply(gate, up) : forward_all(gate, up);
}

}  // namespace sftbench::ops
