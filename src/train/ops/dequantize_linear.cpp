// Linears over quantized weights, of which only x gets a gradient. Forward goes through W by output
// features, backward by input features, so that each tile gives a part of the result that is whole:
// no tile adds to what another has rounded.
#include <algorithm>

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/nf4.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMultiple = 64;  // whole words of GPTQ's codes and whole blocks of NF4's

// Part of W, [out.count, in.count], dequantized into the workspace.
Tensor tile_of(const GptqWeight& weight, FeatureRange out, FeatureRange in,
               const Tensor& workspace) {
  const Tensor tile = workspace.view({in.count, out.count});
  dequantize_into(tile, weight, in, out);
  return tile.t();
}

Tensor tile_of(const Nf4Weight& weight, FeatureRange out, FeatureRange in,
               const Tensor& workspace) {
  const Tensor tile = workspace.view({out.count, in.count});
  dequantize_into(tile, weight, out, in);
  return tile;
}

// What a node of autograd keeps of a weight: its tensors, as they are, and its numbers.
variable_list tensors_of(const GptqWeight& weight) {
  return {weight.qweight, weight.qzeros, weight.scales, weight.g_idx};
}
variable_list tensors_of(const Nf4Weight& weight) {
  return {weight.codes, weight.absmax, weight.nested_absmax, weight.nested_offset};  // or undefined
}
std::vector<int64_t> numbers_of(const GptqWeight& weight) {
  return {weight.bits, weight.zeros_less_one ? 1 : 0};
}
std::vector<int64_t> numbers_of(const Nf4Weight& weight) {
  return {weight.out, weight.in};
}
void restore(const variable_list& tensors, const std::vector<int64_t>& numbers,
             GptqWeight& weight) {
  weight = {static_cast<int>(numbers[0]),
            numbers[1] != 0,
            tensors[0],
            tensors[1],
            tensors[2],
            tensors[3]};
}
void restore(const variable_list& tensors, const std::vector<int64_t>& numbers, Nf4Weight& weight) {
  weight = {numbers[0], numbers[1], tensors[0], tensors[1], tensors[2], tensors[3]};
}

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

template <class Weight>
Tensor forward_rows(const Tensor& x, const Weight& weight, const Tensor& bias) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  if (!values_needed()) return torch::zeros(with_last(x, out), x.options());
  Tensor y = torch::empty(with_last(x, out), x.options());
  const Tensor y_rows = y.view({-1, out}), x_rows = rows(x);
  for_each_tile(out, in, x.options(), [&](FeatureRange range, const Tensor& workspace) {
    matmul_nt_into(y_rows.narrow(1, range.begin, range.count), x_rows,
                   tile_of(weight, range, {0, in}, workspace),
                   bias.defined() ? bias.narrow(0, range.begin, range.count) : bias);
  });
  return y;
}

template <class Weight>
Tensor input_gradient(const Tensor& y_gradient, const Weight& weight) {
  const int64_t in = weight.in_features(), out = weight.out_features();
  Tensor dx = torch::empty(with_last(y_gradient, in), y_gradient.options());
  const Tensor dx_rows = dx.view({-1, in}), dy_rows = rows(y_gradient);
  for_each_tile(in, out, dx.options(), [&](FeatureRange range, const Tensor& workspace) {
    matmul_nt_into(dx_rows.narrow(1, range.begin, range.count), dy_rows,
                   tile_of(weight, {0, out}, range, workspace).t());
  });
  return dx;
}

template <class Weight>
class FrozenLinear : public torch::autograd::Function<FrozenLinear<Weight>> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const OptionalTensor& bias,
                        const Weight& weight) {
    ctx->save_for_backward(tensors_of(weight));
    ctx->saved_data["numbers"] = numbers_of(weight);
    return forward_rows(x, weight, bias ? *bias : Tensor());
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const torch::NoGradGuard no_grad;
    Weight weight;
    restore(ctx->get_saved_variables(), ctx->saved_data["numbers"].toIntVector(), weight);
    return {input_gradient(output_gradients[0], weight), Tensor(), Tensor()};
  }
};

template <class Weight>
Tensor frozen_linear(const char* op, const Tensor& x, const Weight& weight, const Tensor& bias) {
  require_float(x, op, "x");
  require(x.dim() >= 1 && x.size(-1) == weight.in_features(), op,
          "x must be [..., " + std::to_string(weight.in_features()) + "]", describe(x));
  if (bias.defined()) require_like(bias, op, "bias", {weight.out_features()}, x);
  if (!torch::GradMode::is_enabled() || !x.requires_grad()) return forward_rows(x, weight, bias);
  return FrozenLinear<Weight>::apply(x, bias.defined() ? OptionalTensor(bias) : OptionalTensor(),
                                     weight);
}

}  // namespace

Tensor gptq_linear(const Tensor& x, const GptqWeight& weight, const Tensor& bias) {
  return frozen_linear("gptq_linear", x, weight, bias);
}

Tensor nf4_linear(const Tensor& x, const Nf4Weight& weight, const Tensor& bias) {
  return frozen_linear("nf4_linear", x, weight, bias);
}

}  // namespace sftbench::ops
