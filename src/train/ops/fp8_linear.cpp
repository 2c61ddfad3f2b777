// What is not the library's GEMM here is the arithmetic around it: scales, and operands laid out as
// the hardware wants them, the sum always running along rows of both.
#include "sftbench/ops/fp8_linear.h"

#include "sftbench/ops/torch_version.h"

#if SFTBENCH_TORCH_2
#include "ops/checks.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif
#else
#include <stdexcept>
#endif

namespace sftbench::ops {

#if SFTBENCH_TORCH_2

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOp = "fp8_linear";

struct Scaled {
  Tensor values;  // float8
  Tensor scale;   // float32 scalar: what it stands for is values * scale
};

Scaled to_fp8(const Tensor& x, torch::Dtype dtype) {
  const double largest = dtype == torch::kFloat8_e4m3fn ? 448.0 : 57344.0;
  constexpr double kTiny = 1e-12;  // a tensor of zeros has a scale, too
  const Tensor scale = (x.abs().max().to(torch::kFloat32) / largest).clamp_min(kTiny);
  // As a vector of one the scale widens x: a quotient in bfloat16 would be rounded twice. It may be
  // just beyond the largest number, for which E4M3 has no infinity.
  return {(x / scale.view({1})).clamp_(-largest, largest).to(dtype), scale};
}

// a [M, K] b^T [K, N], both row-major.
Tensor multiply_nt(const Scaled& a, const Scaled& b, torch::Dtype dtype, bool fast_sums) {
  return at::_scaled_mm(a.values, b.values.t(), a.scale, b.scale, /*bias=*/{}, /*scale_result=*/{},
                        dtype, fast_sums);
}

Scaled transposed(const Scaled& x) {
  return {x.values.t().contiguous(), x.scale};
}

// [M, K] -> [K, M], M filled up with zeros to a multiple that the hardware takes.
Scaled transposed_sum(const Scaled& x) {
  const int64_t missing = (kFp8Multiple - x.values.size(0) % kFp8Multiple) % kFp8Multiple;
  if (missing == 0) return transposed(x);
  const Tensor zeros = torch::zeros({missing, x.values.size(1)}, x.values.options());
  return transposed({torch::cat({x.values.view(torch::kUInt8), zeros.view(torch::kUInt8)})
                         .view(x.values.scalar_type()),
                     x.scale});
}

Tensor forward_rows(const Scaled& x, const Tensor& weight, const Tensor& bias) {
  // Sums of the forward pass may be less exact (Hopper's fast accumulation), those of gradients
  // not.
  Tensor y = multiply_nt(x, to_fp8(weight.detach(), torch::kFloat8_e4m3fn), torch::kBFloat16, true);
  if (bias.defined()) y += bias.detach().to(torch::kBFloat16);
  return y;
}

class Fp8Linear : public torch::autograd::Function<Fp8Linear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& optional_bias) {
    const Tensor bias = optional_bias ? *optional_bias : Tensor();
    const Scaled x8 = to_fp8(rows(x), torch::kFloat8_e4m3fn);
    const bool keeps_x = weight.requires_grad();
    ctx->save_for_backward(
        {keeps_x ? x8.values : Tensor(), keeps_x ? x8.scale : Tensor(), weight, bias});
    ctx->saved_data["x_requires_grad"] = x.requires_grad();
    // No view: adapters may add to it in place.
    return at::_unsafe_view(forward_rows(x8, weight, bias), with_last(x, weight.size(0)));
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &weight = saved[2], &bias = saved[3];
    const Tensor y_rows = rows(output_gradients[0]);
    const Scaled dy = to_fp8(y_rows, torch::kFloat8_e5m2);
    variable_list gradients(3);
    if (ctx->saved_data["x_requires_grad"].toBool()) {
      const Scaled w = to_fp8(weight.detach(), torch::kFloat8_e4m3fn);
      gradients[0] = multiply_nt(dy, transposed(w), torch::kBFloat16, false)
                         .view(with_last(output_gradients[0], weight.size(1)));
    }
    if (weight.requires_grad()) {
      gradients[1] = accumulate_gradient(weight, [&](Tensor& target, double beta) {
        const torch::Dtype dtype =
            target.scalar_type() == torch::kFloat32 ? torch::kFloat32 : torch::kBFloat16;
        const Tensor dw =
            multiply_nt(transposed_sum(dy), transposed_sum({saved[0], saved[1]}), dtype, false);
        beta == 0.0 ? target.copy_(dw) : target.add_(dw);
      });
    }
    if (bias.defined() && bias.requires_grad()) {
      gradients[2] = accumulate_gradient(bias, [&](Tensor& target, double beta) {
        const Tensor sum = y_rows.sum(0);
        beta == 0.0 ? target.copy_(sum) : target.add_(sum);
      });
    }
    return gradients;
  }
};

void check_shapes(const Tensor& x, const Tensor& weight) {
  require_float(x, kOp, "x");
  require(x.scalar_type() == torch::kBFloat16, kOp, "x must be bfloat16", describe(x));
  require_float(weight, kOp, "weight");
  require(weight.dim() == 2 && weight.size(1) == x.size(-1) && weight.size(0) % kFp8Multiple == 0 &&
              weight.size(1) % kFp8Multiple == 0,
          kOp,
          "weight must be [out, " + std::to_string(x.size(-1)) + "], both multiples of " +
              std::to_string(kFp8Multiple),
          describe(weight));
}

}  // namespace

std::string fp8_obstacle(const torch::Device& device) {
  const std::string wanted =
      "a GPU of compute capability 8.9 or newer (L40S, H100, H200, B200) has float8 products";
#if SFTBENCH_CUDA
  if (device.is_cuda()) {
    const cudaDeviceProp* gpu =
        at::cuda::getDeviceProperties(device.has_index() ? device.index() : -1);
    if (gpu->major * 10 + gpu->minor >= 89) return {};
    return std::string(gpu->name) + " is of compute capability " + std::to_string(gpu->major) +
           "." + std::to_string(gpu->minor) + "; " + wanted;
  }
#endif
  return device.str() + " is none; " + wanted;
}

Tensor fp8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_shapes(x, weight);
  const bool differentiable =
      torch::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (differentiable) {
    return Fp8Linear::apply(x, weight, bias.defined() ? OptionalTensor(bias) : OptionalTensor());
  }
  return at::_unsafe_view(forward_rows(to_fp8(rows(x), torch::kFloat8_e4m3fn), weight, bias),
                          with_last(x, weight.size(0)));
}

#else

std::string fp8_obstacle(const torch::Device&) {
  return "this build's libtorch " TORCH_VERSION
         " has no float8; a build for CUDA with libtorch 2.x on a GPU of compute capability 8.9 or "
         "newer "
         "(L40S, H100, H200, B200) has it";
}

torch::Tensor fp8_linear(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&) {
  throw std::logic_error("fp8_linear: libtorch " TORCH_VERSION " has no float8");
}

#endif

}  // namespace sftbench::ops
