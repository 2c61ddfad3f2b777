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

const SwigluImpl& swiglu_for(const Tensor& x) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kSwigluCuda;
#endif
  return has_cpu_kernels(x) ? kSwigluCpu : kSwigluAten;
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    ctx->save_for_backward({gate, up});
    return swiglu_for(gate).forward(gate, up);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const auto [d_gate, d_up] =
        swiglu_for(saved[0]).backward(output_gradients[0].contiguous(), saved[0], saved[1]);
    return {d_gate, d_up};
  }
};

}  // namespace

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  require_float(gate, "swiglu", "gate");
  require_like(up, "swiglu", "up", gate.sizes().vec(), gate);
  const bool differentiable =
      torch::GradMode::is_enabled() && (gate.requires_grad() || up.requires_grad());
  const Tensor g = gate.contiguous(), u = up.contiguous();
  return differentiable ? Swiglu::apply(g, u) : swiglu_for(g).forward(g, u);
}

}  // namespace sftbench::ops
