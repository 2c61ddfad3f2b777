#include "ops/cpu/dispatch.h"
#include "ops/rms_norm_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kGrainNumel = 16384;

int64_t row_grain(const Tensor& x) {
  return std::max<int64_t>(1, kGrainNumel / x.size(1));
}

void forward(const RmsNormInput& input, const Tensor& weight, double epsilon, Tensor& y,
             Tensor& rstd) {
  const Tensor& x = add_up(input);
  const CpuKernels& kernels = cpu_kernels(x);
  const int64_t width = x.size(1);
  at::parallel_for(0, x.size(0), row_grain(x), [&](int64_t begin, int64_t end) {
    kernels.rms_norm_forward(element(x, begin * width), weight.data_ptr(),
                             element(y, begin * width), rstd.data_ptr<float>() + begin, end - begin,
                             width, static_cast<float>(epsilon));
  });
}

RmsNormGradients backward(const Tensor& y_gradient, const Tensor& x_gradient, const Tensor& x,
                          const Tensor& weight, const Tensor& rstd, bool weight_too) {
  const CpuKernels& kernels = cpu_kernels(x);
  const int64_t rows = x.size(0), width = x.size(1);
  // The weight's gradient is summed by block of rows, then over the blocks: the same sum for any
  // number of threads.
  constexpr int64_t kBlockRows = 64;
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  Tensor dx = torch::empty_like(x);
  const Tensor partial = weight_too ? torch::zeros({blocks, width}, rstd.options()) : Tensor();
  at::parallel_for(
      0, blocks, std::max<int64_t>(1, row_grain(x) / kBlockRows), [&](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
          const int64_t first = block * kBlockRows, count = std::min(kBlockRows, rows - first);
          kernels.rms_norm_backward(
              element(y_gradient, first * width), element(x, first * width), weight.data_ptr(),
              rstd.data_ptr<float>() + first, element(dx, first * width),
              weight_too ? partial.data_ptr<float>() + block * width : nullptr, count, width);
        }
      });
  if (x_gradient.defined()) dx.add_(x_gradient);
  return {dx, weight_too ? partial.sum(0) : Tensor()};
}

}  // namespace

const RmsNormImpl kRmsNormCpu{forward, backward};

}  // namespace sftbench::ops
