#include "ops/rope_impl.h"
#include "ops/shapes.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

Tensor rotate_aten(const Tensor& x, const Tensor& cos, const Tensor& sin, bool inverse) {
  const auto wide = wide_dtype(x);
  const Tensor c = cos.to(wide).unsqueeze(-2);
  const Tensor s = (inverse ? -sin.to(wide) : sin.to(wide)).unsqueeze(-2);
  const auto halves = x.to(wide).chunk(2, -1);
  Tensor y = torch::empty_like(x, torch::MemoryFormat::Contiguous);
  const auto out = y.chunk(2, -1);
  out[0].copy_(halves[0] * c - halves[1] * s);
  out[1].copy_(halves[1] * c + halves[0] * s);
  return y;
}

}  // namespace sftbench::ops
