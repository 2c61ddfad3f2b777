// The causal convolution on GPUs. What a result needs of neighboring positions comes from the
// cache. The backward keeps the gradient before the activation in float32; the gradients of the
// taps are summed by blocks that take many positions each, then over the blocks: the same sum in
// every run.
#include <algorithm>

#include "ops/causal_convolution_impl.h"
#include "ops/cuda/pack.h"
#include "ops/cuda/sequences.h"
#include "ops/cuda/sigmoid.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kConvolutionThreads = 256;
constexpr int kMostTaps = 8;

// x [rows, C] of all batches, `stride` apart; `taps` [count, C].
template <class T>
struct Convolution {
  const T* x;
  int64_t stride, rows, length;
  int channels, count;
  const float *taps, *bias;  // bias may be null
  bool silu;
  SequenceStarts starts;
};

template <class T>
Convolution<T> convolution_of(const ConvolutionInputs& in) {
  return {in.x.data_ptr<T>(),
          in.x.stride(1),
          in.x.size(0) * in.x.size(1),
          in.x.size(1),
          static_cast<int>(in.x.size(2)),
          static_cast<int>(in.taps.size(0)),
          in.taps.data_ptr<float>(),
          in.bias.defined() ? in.bias.data_ptr<float>() : nullptr,
          in.silu,
          sequence_starts(in.cumulative)};
}

// How many positions up to this one its sequence has, up to the number of taps.
template <class T>
__device__ __forceinline__ int positions_seen(const Convolution<T>& p, int64_t row) {
  const int64_t position = row % p.length;
  const int64_t seen = position - p.starts.start_of(position) + 1;
  return seen < p.count ? static_cast<int>(seen) : p.count;
}

// Before the activation.
template <class T, int kCount>
__device__ __forceinline__ void convolve(const Convolution<T>& p, int64_t row, int channel,
                                         float* z) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) z[i] = p.bias == nullptr ? 0.0f : p.bias[channel + i];
  for (int back = positions_seen(p, row) - 1; back >= 0; --back) {
    const auto x = load_pack<kCount>(p.x + (row - back) * p.stride + channel);
    float taps[kCount];
    load_floats<kCount>(p.taps + int64_t{p.count - 1 - back} * p.channels + channel, taps);
#pragma unroll
    for (int i = 0; i < kCount; ++i) z[i] += taps[i] * static_cast<float>(x.value[i]);
  }
}

// body(row, channel) of the pack that a thread has.
template <int kCount, class T, class Body>
__device__ __forceinline__ void for_own_pack(const Convolution<T>& p, const Body& body) {
  const int packs = p.channels / kCount;
  const int64_t pack = int64_t{blockIdx.x} * kConvolutionThreads + threadIdx.x;
  if (pack < p.rows * packs) body(pack / packs, static_cast<int>(pack % packs) * kCount);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kConvolutionThreads)
    convolution_forward(const Convolution<T> p, T* y) {
  for_own_pack<kCount>(p, [&](int64_t row, int channel) {
    float z[kCount];
    convolve<T, kCount>(p, row, channel, z);
    Pack<T, kCount> result;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      result.value[i] = static_cast<T>(p.silu ? z[i] * sigmoid(z[i]) : z[i]);
    store_pack(y + row * p.channels + channel, result);
  });
}

template <class T, int kCount>
__global__ void __launch_bounds__(kConvolutionThreads)
    differentiate_activation(const Convolution<T> p, const T* dy, float* dz) {
  for_own_pack<kCount>(p, [&](int64_t row, int channel) {
    float z[kCount];
    if (p.silu) convolve<T, kCount>(p, row, channel, z);
    const int64_t at = row * p.channels + channel;
    const auto gradient = load_pack<kCount>(dy + at);
    float d[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      d[i] = static_cast<float>(gradient.value[i]);
      if (!p.silu) continue;
      const float s = sigmoid(z[i]);
      d[i] *= s * (1.0f + z[i] * (1.0f - s));
    }
    store_floats<kCount>(dz + at, d);
  });
}

template <class T, int kCount>
__global__ void __launch_bounds__(kConvolutionThreads)
    convolve_back(const Convolution<T> p, const float* dz, T* dx) {
  for_own_pack<kCount>(p, [&](int64_t row, int channel) {
    float sum[kCount] = {};
    const int64_t left = p.length - 1 - row % p.length;
    for (int ahead = 0; ahead < p.count && ahead <= left; ++ahead) {
      if (positions_seen(p, row + ahead) <= ahead) break;  // another sequence
      float d[kCount], taps[kCount];
      load_floats<kCount>(dz + (row + ahead) * p.channels + channel, d);
      load_floats<kCount>(p.taps + int64_t{p.count - 1 - ahead} * p.channels + channel, taps);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += taps[i] * d[i];
    }
    Pack<T, kCount> result;
#pragma unroll
    for (int i = 0; i < kCount; ++i) result.value[i] = static_cast<T>(sum[i]);
    store_pack(dx + row * p.channels + channel, result);
  });
}

// partial [blocks of positions, taps and the bias, C].
template <class T>
__global__ void __launch_bounds__(kConvolutionThreads)
    tap_gradients(const Convolution<T> p, const float* dz, int64_t block_rows, float* partial) {
  const auto channel = static_cast<int>(blockIdx.x * kConvolutionThreads + threadIdx.x);
  if (channel >= p.channels) return;
  float sums[kMostTaps] = {}, bias = 0.0f;
  const int64_t first = int64_t{blockIdx.y} * block_rows;
  const int64_t end = first + block_rows < p.rows ? first + block_rows : p.rows;
  for (int64_t row = first; row < end; ++row) {
    const float d = dz[row * p.channels + channel];
    const int seen = positions_seen(p, row);
    bias += d;
#pragma unroll
    for (int back = 0; back < kMostTaps; ++back) {
      if (back < seen) sums[back] += d * static_cast<float>(p.x[(row - back) * p.stride + channel]);
    }
  }
  float* out = partial + int64_t{blockIdx.y} * (p.count + 1) * p.channels + channel;
#pragma unroll
  for (int back = 0; back < kMostTaps; ++back) {
    if (back < p.count) out[int64_t{p.count - 1 - back} * p.channels] = sums[back];
  }
  out[int64_t{p.count} * p.channels] = bias;
}

template <class T>
bool convolution_takes_packs(const Convolution<T>& p, const void* y) {
  return p.stride % kPackCount<T> == 0 && takes_packs<T>(p.channels, {p.x, p.taps, y});
}

template <class T>
LaunchShape pack_shape(const Convolution<T>& p, int64_t count) {
  const int64_t packs = p.rows * (p.channels / count);
  return {static_cast<unsigned>((packs + kConvolutionThreads - 1) / kConvolutionThreads),
          kConvolutionThreads};
}

Tensor forward(const ConvolutionInputs& in) {
  if (in.x.numel() == 0) return kConvolutionAten.forward(in);
  const DeviceScope scope(in.x);
  Tensor y = torch::empty(in.x.sizes(), in.x.options());
  for_kernel_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const Convolution<T> p = convolution_of<T>(in);
    const auto launch = [&](auto count) {
      launch_kernel(convolution_forward<T, count.value>, pack_shape(p, count), p, y.data_ptr<T>());
    };
    convolution_takes_packs(p, y.data_ptr()) ? launch(std::integral_constant<int, kPackCount<T>>())
                                             : launch(std::integral_constant<int, 1>());
  });
  return y;
}

template <class T, int kCount>
void launch_backward(const Convolution<T>& p, const Tensor& y_gradient, const Tensor& dz,
                     const Tensor& dx) {
  launch_kernel(differentiate_activation<T, kCount>, pack_shape(p, kCount), p,
                y_gradient.data_ptr<T>(), dz.data_ptr<float>());
  launch_kernel(convolve_back<T, kCount>, pack_shape(p, kCount), p, dz.data_ptr<float>(),
                dx.data_ptr<T>());
}

ConvolutionGradients backward(const Tensor& y_gradient, const ConvolutionInputs& in) {
  constexpr int64_t kLeastRows = 64, kMostBlocks = 256;
  const int64_t rows = in.x.size(0) * in.x.size(1), channels = in.x.size(2),
                count = in.taps.size(0);
  if (in.x.numel() == 0 || count > kMostTaps) return kConvolutionAten.backward(y_gradient, in);
  const DeviceScope scope(in.x);
  Tensor dx = torch::empty(in.x.sizes(), in.x.options());
  const Tensor dz = torch::empty({rows, channels}, in.taps.options());
  const int64_t block_rows = std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks);
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const Tensor partial = torch::empty({blocks, count + 1, channels}, in.taps.options());
  for_kernel_type(in.x, [&](auto zero) {
    using T = decltype(zero);
    const Convolution<T> p = convolution_of<T>(in);
    const bool packs = convolution_takes_packs(p, dx.data_ptr()) &&
                       takes_packs<T>(channels, {y_gradient.data_ptr()});
    packs ? launch_backward<T, kPackCount<T>>(p, y_gradient, dz, dx)
          : launch_backward<T, 1>(p, y_gradient, dz, dx);
    const auto columns =
        static_cast<unsigned>((channels + kConvolutionThreads - 1) / kConvolutionThreads);
    launch_kernel(tap_gradients<T>,
                  {dim3(columns, static_cast<unsigned>(blocks)), kConvolutionThreads}, p,
                  dz.data_ptr<float>(), block_rows, partial.data_ptr<float>());
  });
  const Tensor sums = partial.sum(0);
  return {dx, sums.narrow(0, 0, count), in.bias.defined() ? sums[count] : Tensor()};
}

}  // namespace

const ConvolutionImpl kConvolutionCuda{forward, backward};

}  // namespace sftbench::ops
