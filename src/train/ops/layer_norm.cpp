#include "sftbench/ops/layer_norm.h"

#include <array>
#include <tuple>

#include "ops/checks.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const Tensor& weight, const Tensor& bias, double epsilon) {
    const torch::Dtype wide = wide_dtype(x);
    const auto [y, mean, reciprocal] =
        torch::native_layer_norm(x.to(wide), {x.size(-1)}, weight.to(wide), bias.to(wide), epsilon);
    context->save_for_backward({x, weight, bias, mean, reciprocal});
    return y.to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const torch::Dtype wide = wide_dtype(x);
    const std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                        context->needs_input_grad(2)};
    auto [dx, dweight, dbias] =
        at::native_layer_norm_backward(gradients[0].to(wide).contiguous(), x.to(wide), {x.size(-1)},
                                       saved[3], saved[4], weight.to(wide), bias.to(wide), wanted);
    const auto rounded = [&x](const Tensor& gradient) {
      return gradient.defined() ? gradient.to(x.scalar_type()) : gradient;
    };
    return {rounded(dx), rounded(dweight), rounded(dbias), {}};
  }
};

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  require_float(x, "layer_norm", "x");
  return LayerNormFunction::apply(x.contiguous(), weight, bias, epsilon);
}

}  // namespace sftbench::ops
