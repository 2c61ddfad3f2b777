#include "sftbench/ops/rope.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/rope_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The inverse of a rotation is the rotation by the negative angle: the backward is the forward with
// -sin.
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, bool inverse) {
  return has_cpu_kernels(x) ? rotate_cpu(x, cos, sin, inverse) : rotate_aten(x, cos, sin, inverse);
}

std::pair<Tensor, Tensor> rotate(const Tensor& q, const Tensor& k, const Tensor& cos,
                                 const Tensor& sin, bool inverse) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(q)) return rotate_cuda(q, k, cos, sin, inverse);
#endif
  return {rotate(q, cos, sin, inverse), rotate(k, cos, sin, inverse)};
}

class Rope : public torch::autograd::Function<Rope> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& q, const Tensor& k,
                               const Tensor& cos, const Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    const auto [q_rotated, k_rotated] = rotate(q, k, cos, sin, false);
    return {q_rotated, k_rotated};
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    variable_list gradients(4);
    if (output_gradients[0].defined() && output_gradients[1].defined()) {
      std::tie(gradients[0], gradients[1]) =
          rotate(output_gradients[0], output_gradients[1], saved[0], saved[1], true);
      return gradients;
    }
    for (size_t i = 0; i < 2; ++i) {
      if (output_gradients[i].defined())
        gradients[i] = rotate(output_gradients[i], saved[0], saved[1], true);
    }
    return gradients;
  }
};

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin) {
  require_float(q, "apply_rope", "q");
  require(q.dim() == 4 && q.size(3) % 2 == 0, "apply_rope", "q must be [B, S, H, D] with an even D",
          describe(q));
  require_like(k, "apply_rope", "k", {q.size(0), q.size(1), -1, q.size(3)}, q);
  const int64_t half = q.size(3) / 2;
  for (const auto& [tensor, name] : {std::pair(&cos, "cos"), std::pair(&sin, "sin")}) {
    if (tensor->defined() && tensor->dim() == 3) {
      require_like(*tensor, "apply_rope", name, {q.size(0), q.size(1), half}, q);
    } else {
      require_like(*tensor, "apply_rope", name, {q.size(1), half}, q);
    }
  }
}

}  // namespace

std::tuple<Tensor, Tensor> apply_rope(const Tensor& q, const Tensor& k, const Tensor& cos,
                                      const Tensor& sin) {
  check_shapes(q, k, cos, sin);
  if (torch::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad())) {
    const variable_list rotated = Rope::apply(q, k, cos, sin);
    return {rotated[0], rotated[1]};
  }
  return rotate(q, k, cos, sin, false);
}

}  // namespace sftbench::ops
