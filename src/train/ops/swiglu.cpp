#include "sftbench/ops/swiglu.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/swiglu_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const SwigluImpl& swiglu_for(const Tensor& x, GateForm form) {
  if (form == GateForm::kGeluError) return kSwigluAten;
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kSwigluCuda;
#endif
  return has_cpu_kernels(x) ? kSwigluCpu : kSwigluAten;
}

// Two tensors of equal shape are one row each.
Tensor as_row(const Tensor& tensor) {
  return tensor.view({1, -1});
}

GateForm form_of(AutogradContext* ctx) {
  return static_cast<GateForm>(ctx->saved_data["form"].toInt());
}

Tensor forward_of(const Tensor& gate, const Tensor& up, GateForm form) {
  Tensor y = torch::empty_like(gate);
  swiglu_for(gate, form).forward({as_row(gate), as_row(up)}, form, as_row(y));
  return y;
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up, GateForm form) {
    ctx->save_for_backward({gate, up});
    ctx->saved_data["form"] = static_cast<int64_t>(form);
    return forward_of(gate, up, form);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor dy = output_gradients[0].contiguous();
    Tensor d_gate = torch::empty_like(saved[0]), d_up = torch::empty_like(saved[1]);
    const GateForm form = form_of(ctx);
    swiglu_for(dy, form).backward(as_row(dy), {as_row(saved[0]), as_row(saved[1])}, form,
                                  {as_row(d_gate), as_row(d_up)});
    return {d_gate, d_up, Tensor()};
  }
};

// Views [rows, I] of a contiguous tensor [..., 2 I].
GateAndUp halves_of(const Tensor& both) {
  const int64_t width = both.size(-1) / 2;
  const Tensor rows = both.view({-1, 2 * width});
  return {rows.narrow(1, 0, width), rows.narrow(1, width, width)};
}

Tensor forward_of(const Tensor& gate_and_up, GateForm form) {
  const GateAndUp halves = halves_of(gate_and_up);
  std::vector<int64_t> sizes = gate_and_up.sizes().vec();
  sizes.back() /= 2;
  Tensor y = torch::empty(sizes, gate_and_up.options());
  swiglu_for(y, form).forward(halves, form, y.view(halves.gate.sizes()));
  return y;
}

class SwigluOfHalves : public torch::autograd::Function<SwigluOfHalves> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_and_up, GateForm form) {
    ctx->save_for_backward({gate_and_up});
    ctx->saved_data["form"] = static_cast<int64_t>(form);
    return forward_of(gate_and_up, form);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const Tensor gate_and_up = ctx->get_saved_variables()[0];
    const Tensor dy = output_gradients[0].contiguous();
    Tensor gradient = torch::empty_like(gate_and_up);
    const GateAndUp halves = halves_of(gate_and_up);
    const GateForm form = form_of(ctx);
    swiglu_for(dy, form).backward(dy.view(halves.gate.sizes()), halves, form, halves_of(gradient));
    return {gradient, Tensor()};
  }
};

Tensor gated(const char* op, const Tensor& gate, const Tensor& up, GateForm form) {
  require_float(gate, op, "gate");
  require_like(up, op, "up", gate.sizes().vec(), gate);
  const bool differentiable =
      torch::GradMode::is_enabled() && (gate.requires_grad() || up.requires_grad());
  const Tensor g = gate.contiguous(), u = up.contiguous();
  return differentiable ? Swiglu::apply(g, u, form) : forward_of(g, u, form);
}

Tensor gated(const char* op, const Tensor& gate_and_up, GateForm form) {
  require_float(gate_and_up, op, "gate_and_up");
  require(gate_and_up.dim() > 0 && gate_and_up.size(-1) > 0 && gate_and_up.size(-1) % 2 == 0, op,
          "gate_and_up must be [..., 2 I]", describe(gate_and_up));
  const bool differentiable = torch::GradMode::is_enabled() && gate_and_up.requires_grad();
  const Tensor both = gate_and_up.contiguous();
  return differentiable ? SwigluOfHalves::apply(both, form) : forward_of(both, form);
}

GateForm form_of(Gelu form) {
  return form == Gelu::kTanh ? GateForm::kGeluTanh : GateForm::kGeluError;
}

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  return gated("swiglu", gate, up, GateForm::kSilu);
}

Tensor swiglu(const Tensor& gate_and_up) {
  return gated("swiglu", gate_and_up, GateForm::kSilu);
}

Tensor geglu(const Tensor& gate, const Tensor& up, Gelu form) {
  return gated("geglu", gate, up, form_of(form));
}

Tensor geglu(const Tensor& gate_and_up, Gelu form) {
  return gated("geglu", gate_and_up, form_of(form));
}

}  // namespace sftbench::ops
