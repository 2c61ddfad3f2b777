#include "sftbench/ops/gelu.h"

#include "ops/checks.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

const char* name_of(Gelu form) {
  return form == Gelu::kTanh ? "tanh" : "none";
}

// Of the arithmetic: libtorch's CPU kernels take it from the input, and those of CUDA compute in
// float32 anyway.
torch::Dtype computed_dtype(const Tensor& x) {
  return x.is_cuda() ? x.scalar_type() : wide_dtype(x);
}

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, bool by_tanh) {
    context->save_for_backward({x});
    context->saved_data["by_tanh"] = by_tanh;
    const char* form = name_of(by_tanh ? Gelu::kTanh : Gelu::kError);
    return at::gelu(x.to(computed_dtype(x)), form).to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Tensor x = context->get_saved_variables()[0];
    const char* form =
        name_of(context->saved_data["by_tanh"].toBool() ? Gelu::kTanh : Gelu::kError);
    const torch::Dtype wide = computed_dtype(x);
    return {at::gelu_backward(gradients[0].to(wide), x.to(wide), form).to(x.scalar_type()), {}};
  }
};

}  // namespace

Tensor gelu(const Tensor& x, Gelu form) {
  require_float(x, "gelu", "x");
  return GeluFunction::apply(x, form == Gelu::kTanh);
}

}  // namespace sftbench::ops
