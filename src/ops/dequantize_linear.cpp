// Forward goes through W by output features, backward by input features, so that each tile gives a
// part of the result that is whole: no tile adds to what another has rounded.
#include <algorithm>

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMultiple = 32;

// Calls use(range, workspace) on ranges that cover `features`, each as long as the workspace allows
// where a feature takes `width` elements.
template <class Use>
void for_each_tile(int64_t features, int64_t width, const torch::TensorOptions& options,
                   const Use& use) {
  const int64_t fitting = dequantize_workspace_numel(options.device()) / width;
  const int64_t most = std::min(features, std::max(kMultiple, fitting / kMultiple * kMultiple));
  const Tensor workspace = torch::empty({most * width}, options);
  for (int64_t begin = 0; begin < features; begin += most) {
    const int64_t count = std::min(most, features - begin);
    use(FeatureRange{begin, count}, workspace.narrow(0, 0, count * width));
  }
}

Tensor forward_rows(const Tensor& x, const GptqWeight& weight, const Tensor& bias) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  if (!values_needed()) return torch::zeros(with_last(x, out), x.options());
  Tensor y = torch::empty(with_last(x, out), x.options());
  const Tensor y_rows = y.view({-1, out}), x_rows = rows(x);
  for_each_tile(out, in, x.options(), [&](FeatureRange range, const Tensor& workspace) {
    const Tensor tile = workspace.view({in, range.count});
    dequantize_into(tile, weight, {0, in}, range);
    matmul_nt_into(y_rows.narrow(1, range.begin, range.count), x_rows, tile.t(),
                   bias.defined() ? bias.narrow(0, range.begin, range.count) : bias);
  });
  return y;
}

Tensor input_gradient(const Tensor& y_gradient, const GptqWeight& weight) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  Tensor dx = torch::empty(with_last(y_gradient, in), y_gradient.options());
  const Tensor dx_rows = dx.view({-1, in}), dy_rows = rows(y_gradient);
  for_each_tile(in, out, dx.options(), [&](FeatureRange range, const Tensor& workspace) {
    const Tensor tile = workspace.view({range.count, out});
    dequantize_into(tile, weight, range, {0, out});
    matmul_nt_into(dx_rows.narrow(1, range.begin, range.count), dy_rows, tile);
  });
  return dx;
}

class GptqLinear : public torch::autograd::Function<GptqLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& qweight,
                        const Tensor& qzeros, const Tensor& scales, const Tensor& g_idx,
                        const OptionalTensor& bias, int64_t bits, bool zeros_less_one) {
    ctx->save_for_backward({qweight, qzeros, scales, g_idx});
    ctx->saved_data["bits"] = bits;
    ctx->saved_data["zeros_less_one"] = zeros_less_one;
    const GptqWeight weight = {
        static_cast<int>(bits), zeros_less_one, qweight, qzeros, scales, g_idx};
    return forward_rows(x, weight, bias ? *bias : Tensor());
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const torch::NoGradGuard no_grad;
    const variable_list saved = ctx->get_saved_variables();
    const GptqWeight weight = {static_cast<int>(ctx->saved_data["bits"].toInt()),
                               ctx->saved_data["zeros_less_one"].toBool(),
                               saved[0],
                               saved[1],
                               saved[2],
                               saved[3]};
    variable_list gradients(8);
    gradients[0] = input_gradient(output_gradients[0], weight);
    return gradients;
  }
};

}  // namespace

Tensor gptq_linear(const Tensor& x, const GptqWeight& weight, const Tensor& bias) {
  require_float(x, "gptq_linear", "x");
  require(x.dim() >= 1 && x.size(-1) == weight.in_features(), "gptq_linear",
          "x must be [..., " + std::to_string(weight.in_features()) + "]", describe(x));
  if (bias.defined()) require_like(bias, "gptq_linear", "bias", {weight.out_features()}, x);
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return forward_rows(x, weight, bias);
  return GptqLinear::apply(x, weight.qweight, weight.qzeros, weight.scales, weight.g_idx,
                           bias.defined() ? OptionalTensor(bias) : OptionalTensor(),
                           int64_t{weight.bits}, weight.zeros_less_one);
}

}  // namespace sftbench::ops
