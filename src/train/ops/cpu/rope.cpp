#include "ops/cpu/dispatch.h"
#include "ops/rope_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

Tensor rotate_cpu(const Tensor& x_any, const Tensor& cos_any, const Tensor& sin_any, bool inverse) {
  const CpuKernels& kernels = cpu_kernels(x_any);
  const Tensor x = x_any.contiguous(), cos = cos_any.contiguous(), sin = sin_any.contiguous();
  Tensor y = torch::empty_like(x);
  const int64_t length = x.size(1), heads = x.size(2), dim = x.size(3);
  // One set of angles for every sequence of the batch, or one each.
  const int64_t angle_rows = cos.numel() / std::max<int64_t>(1, dim / 2);
  at::parallel_for(0, x.size(0) * length, 32, [&](int64_t begin, int64_t end) {
    for (int64_t position = begin; position < end; ++position) {
      const int64_t angle = position % angle_rows * (dim / 2), at = position * heads * dim;
      kernels.rope(element(x, at), element(cos, angle), element(sin, angle), element(y, at), heads,
                   dim, inverse ? -1.0f : 1.0f);
    }
  });
  return y;
}

}  // namespace sftbench::ops
