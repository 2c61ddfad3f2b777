// Letters: M rows of t, s = magnitude / norms. A row of bfloat16 does not hold how far s is from 1,
// so that all is computed in the dtype of the magnitude and rounded once.
#include "sftbench/ops/dora.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kMagnitude = "with_magnitude";
constexpr int64_t kRowMultiple = 64;

// Calls use(first, count) on parts of `rows` whose elements fit into a bounded workspace.
template <class Use>
void for_each_part(int64_t rows, int64_t width, const torch::Device& device, const Use& use) {
  const int64_t fitting = dequantize_workspace_numel(device) / std::max<int64_t>(1, width);
  const int64_t most = std::max(kRowMultiple, fitting / kRowMultiple * kRowMultiple);
  for (int64_t first = 0; first < rows; first += most) use(first, std::min(most, rows - first));
}

// s t + rest - s b, where rest may be b alone.
Tensor scaled_rows(const Tensor& t, const Tensor& scale, const Tensor& bias, const Tensor& rest) {
  const Tensor t_rows = rows(t);
  Tensor constant;  // [out]
  if (bias.defined()) {
    const Tensor wide = bias.to(scale.scalar_type());
    constant = rest.defined() ? -scale * wide : wide - scale * wide;
  }
  Tensor y = torch::empty(t.sizes(), t.options());
  const Tensor y_rows = y.view(t_rows.sizes());
  const Tensor rest_rows = rest.defined() ? rows(rest) : rest;
  for_each_part(t_rows.size(0), t_rows.size(1), t.device(), [&](int64_t first, int64_t count) {
    Tensor part = t_rows.narrow(0, first, count) * scale;
    if (constant.defined()) part.add_(constant);
    if (rest.defined()) part.add_(rest_rows.narrow(0, first, count));
    y_rows.narrow(0, first, count).copy_(part);
  });
  return y;
}

class WithMagnitude : public torch::autograd::Function<WithMagnitude> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& t, const Tensor& magnitude,
                        const Tensor& norms, const OptionalTensor& bias,
                        const OptionalTensor& rest) {
    const Tensor of_bias = bias ? *bias : Tensor();
    ctx->save_for_backward({t, magnitude, norms, of_bias});
    ctx->saved_data["has_rest"] = rest.has_value();
    return scaled_rows(t, magnitude / norms, of_bias, rest ? *rest : Tensor());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const torch::NoGradGuard no_grad;
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &t = saved[0], &magnitude = saved[1], &norms = saved[2], &bias = saved[3];
    const Tensor &dy = output_gradients[0], dy_rows = rows(dy), t_rows = rows(t);
    const Tensor scale = magnitude / norms;
    Tensor dt = torch::empty(t_rows.sizes(), t_rows.options());
    Tensor sums = torch::zeros_like(norms);  // of dy (t - b)
    for_each_part(dy_rows.size(0), dy_rows.size(1), dy.device(), [&](int64_t first, int64_t count) {
      const Tensor wide = dy_rows.narrow(0, first, count).to(scale.scalar_type());
      const Tensor products = wide * t_rows.narrow(0, first, count);
      sums.add_(products.sum(0));
      if (bias.defined()) sums.sub_(wide.sum(0) * bias);
      dt.narrow(0, first, count).copy_(wide * scale);
    });
    variable_list gradients(5);
    gradients[0] = dt.view(t.sizes());
    gradients[1] = accumulate_gradient(magnitude, [&](Tensor& gradient, double beta) {
      const Tensor sum = sums / norms;
      beta == 0.0 ? gradient.copy_(sum) : gradient.add_(sum);
    });
    if (ctx->saved_data["has_rest"].toBool()) gradients[4] = dy;
    return gradients;
  }
};

}  // namespace

Tensor row_norms(const WeightRows& weight, const LowRankFactors& factors, double scale) {
  const torch::NoGradGuard no_grad;
  const Tensor &a = factors.a, &b = factors.b;
  const int64_t out = b.size(0), in = a.size(1);
  Tensor norms = torch::empty({out}, b.options().requires_grad(false));
  for_each_part(out, in, a.device(), [&](int64_t first, int64_t count) {
    const Tensor part = weight(first, count).to(a.scalar_type());
    require_like(part, "row_norms", "weight", {count, in}, a);
    const Tensor sum = at::addmm(part, b.narrow(0, first, count), a, 1, scale);
    norms.narrow(0, first, count).copy_(at::linalg_vector_norm(sum, 2, {1}));
  });
  return norms;
}

Tensor with_magnitude(const Tensor& t, const Tensor& magnitude, const Tensor& norms,
                      const Tensor& bias, const Tensor& rest) {
  require_float(t, kMagnitude, "t");
  require_like(norms, kMagnitude, "norms", {t.size(-1)}, magnitude);
  require_like(magnitude, kMagnitude, "magnitude", {t.size(-1)}, magnitude);
  if (rest.defined()) require_like(rest, kMagnitude, "rest", t.sizes().vec(), t);
  const bool differentiable =
      t.requires_grad() || magnitude.requires_grad() || (rest.defined() && rest.requires_grad());
  if (!differentiable || !torch::GradMode::is_enabled())
    return scaled_rows(t, magnitude / norms, bias, rest);
  const auto optional = [](const Tensor& tensor) {
    return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
  };
  return WithMagnitude::apply(t, magnitude, norms, optional(bias), optional(rest));
}

}  // namespace sftbench::ops
