#include "sftbench/ops/causal_convolution.h"

#include "ops/causal_convolution_impl.h"
#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const ConvolutionImpl& convolution_for(const Tensor& x) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kConvolutionCuda;
#endif
  return has_cpu_kernels(x) ? kConvolutionCpu : kConvolutionAten;
}

// [C, K] or [C, 1, K] as [K, C] in the wide dtype.
Tensor taps_of(const Tensor& weight) {
  return weight.detach()
      .reshape({weight.size(0), weight.size(-1)})
      .t()
      .to(wide_dtype(weight))
      .contiguous();
}

Tensor wide_bias(const Tensor& bias) {
  return bias.defined() ? bias.detach().to(wide_dtype(bias)).contiguous() : bias;
}

ConvolutionInputs convolution_inputs(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                     bool silu, const std::vector<int64_t>& offsets,
                                     const Tensor& cumulative) {
  return {x, taps_of(weight), wide_bias(bias), silu, offsets, cumulative};
}

Tensor add_gradient(const Tensor& parameter, const Tensor& gradient) {
  return accumulate_gradient(parameter, [&](Tensor& target, double beta) {
    beta == 0.0 ? target.copy_(gradient) : target.add_(gradient);
  });
}

class CausalConvolution : public torch::autograd::Function<CausalConvolution> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& optional_bias, bool silu,
                        const std::vector<int64_t>& offsets, const OptionalTensor& of_device) {
    const Tensor bias = optional_bias.value_or(Tensor());
    const Tensor cumulative = of_device.value_or(Tensor());
    ctx->save_for_backward({x, weight, bias, cumulative});
    ctx->saved_data["silu"] = silu;
    ctx->saved_data["offsets"] = offsets;
    return convolution_for(x).forward(
        convolution_inputs(x, weight, bias, silu, offsets, cumulative));
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& bias = saved[2];
    const ConvolutionGradients found = convolution_for(x).backward(
        output_gradients[0].contiguous(),
        convolution_inputs(x, weight, bias, ctx->saved_data["silu"].toBool(),
                           ctx->saved_data["offsets"].toIntVector(), saved[3]));
    variable_list gradients(6);
    gradients[0] = found.x;
    if (weight.requires_grad()) {
      gradients[1] = add_gradient(weight, found.taps.t().reshape(weight.sizes()));
    }
    if (bias.defined() && bias.requires_grad()) gradients[2] = add_gradient(bias, found.bias);
    return gradients;
  }
};

// Whether rows lie where the kernels look for them: equally far apart over all batches.
bool has_even_rows(const Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) >= x.size(2) &&
         (x.size(0) == 1 || x.stride(0) == x.size(1) * x.stride(1));
}

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const PackedSequences& packed) {
  const char* const op = "causal_convolution";
  require_float(x, op, "x");
  require(x.dim() == 3, op, "x must be [B, S, C]", describe(x));
  const bool flat = weight.defined() && weight.dim() == 2;
  require_like(weight, op, "weight",
               flat ? std::vector<int64_t>{x.size(2), -1} : std::vector<int64_t>{x.size(2), 1, -1},
               x);
  require(weight.size(-1) > 0, op, "the weight must have a tap", describe(weight));
  if (bias.defined()) require_like(bias, op, "bias", {x.size(2)}, x);
  require_packed(packed, op, "x", x);
}

}  // namespace

Tensor causal_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          ConvolutionActivation activation, const PackedSequences& packed) {
  check_shapes(x, weight, bias, packed);
  const bool silu = activation == ConvolutionActivation::kSilu;
  const Tensor rows = has_even_rows(x) ? x : x.contiguous();
  const bool differentiable =
      torch::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!differentiable) {
    return convolution_for(rows).forward(
        convolution_inputs(rows, weight, bias, silu, packed.offsets, packed.cumulative));
  }
  const auto optional = [](const Tensor& tensor) {
    return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
  };
  return CausalConvolution::apply(rows, weight, optional(bias), silu, packed.offsets,
                                  optional(packed.cumulative));
}

}  // namespace sftbench::ops
