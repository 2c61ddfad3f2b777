// The convolution as a sum of shifted copies: what lies before its sequence is masked.
#include "ops/causal_convolution_impl.h"

#include <algorithm>

#include "ops/shapes.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// [S, 1]: each position's distance from the start of its sequence.
Tensor distance_from_start(const Tensor& x, const std::vector<int64_t>& offsets) {
  Tensor distance = torch::arange(x.size(1), x.options().dtype(torch::kInt64));
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    distance.slice(0, offsets[i], offsets[i + 1]) -= offsets[i];
  return distance.unsqueeze(-1);
}

// Position s of the result is position s - shift of x, or 0 where that is of another sequence.
Tensor shifted(const Tensor& x, int64_t shift, const Tensor& distance) {
  Tensor moved = torch::zeros_like(x);
  const int64_t length = x.size(1);
  if (shift < length) moved.slice(1, shift).copy_(x.slice(1, 0, length - shift));
  return moved.masked_fill_(distance < shift, 0);
}

// The transpose of `shifted`.
Tensor shifted_back(const Tensor& y, int64_t shift, const Tensor& distance) {
  Tensor moved = torch::zeros_like(y);
  const int64_t length = y.size(1);
  if (shift < length) {
    moved.slice(1, 0, length - shift).copy_(y.masked_fill(distance < shift, 0).slice(1, shift));
  }
  return moved;
}

Tensor before_activation(const Tensor& wide_x, const Tensor& taps, const Tensor& bias,
                         const Tensor& distance) {
  const int64_t count = taps.size(0);
  Tensor z = torch::zeros_like(wide_x);
  if (bias.defined()) z += bias;
  for (int64_t j = 0; j < count; ++j) z += shifted(wide_x, count - 1 - j, distance) * taps[j];
  return z;
}

Tensor forward(const ConvolutionInputs& in) {
  const Tensor z = before_activation(in.x.to(in.taps.scalar_type()).contiguous(), in.taps, in.bias,
                                     distance_from_start(in.x, in.offsets));
  return (in.silu ? at::silu(z) : z).to(in.x.scalar_type());
}

ConvolutionGradients backward(const Tensor& y_gradient, const ConvolutionInputs& in) {
  const Tensor& taps = in.taps;
  const Tensor wide_x = in.x.to(taps.scalar_type()).contiguous();
  const Tensor distance = distance_from_start(in.x, in.offsets);
  Tensor dz = y_gradient.to(taps.scalar_type());
  if (in.silu) {
    const Tensor z = before_activation(wide_x, taps, in.bias, distance), sigmoid = z.sigmoid();
    dz = dz * sigmoid * (1 + z * (1 - sigmoid));
  }
  const int64_t count = taps.size(0);
  Tensor dx = torch::zeros_like(wide_x), d_taps = torch::empty_like(taps);
  for (int64_t j = 0; j < count; ++j) {
    const int64_t shift = count - 1 - j;
    dx += shifted_back(dz * taps[j], shift, distance);
    d_taps[j] = (dz * shifted(wide_x, shift, distance)).sum(std::vector<int64_t>{0, 1});
  }
  return {dx.to(in.x.scalar_type()), d_taps,
          in.bias.defined() ? dz.sum(std::vector<int64_t>{0, 1}) : Tensor()};
}

}  // namespace

const ConvolutionImpl kConvolutionAten{forward, backward};

}  // namespace sftbench::ops
