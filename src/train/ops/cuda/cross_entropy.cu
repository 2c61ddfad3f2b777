// Cross-entropy on GPUs: a block for each row, which reads its logits once for the largest and the
// sum of exponentials, and once more, from the cache, to overwrite them with their gradient.
#include <cfloat>
#include <cmath>

#include "ops/cross_entropy_impl.h"
#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"
#include "sftbench/ops/linear_cross_entropy.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kRowThreads = 512;

// A logit as the model's dtype holds it.
template <class T>
__device__ __forceinline__ float scaled(T logit, float scale) {
  const auto v = static_cast<float>(logit);
  return scale == 1.0f ? v : static_cast<float>(static_cast<T>(v * scale));
}

// Of exp(v - top): `top` begins as a finite number, so that logits of minus infinity count as 0.
struct RunningSum {
  float top = -FLT_MAX, total = 0.0f;
};

template <class T, int kCount>
__device__ __forceinline__ RunningSum sum_of_thread(const T* row, int width, float scale) {
  RunningSum sum;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < width; i += kRowThreads * kCount) {
    const auto pack = load_pack<kCount>(row + i);
    float values[kCount], top = sum.top;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      values[j] = scaled(pack.value[j], scale);
      top = fmaxf(top, values[j]);
    }
    sum.total *= expf(sum.top - top);
    sum.top = top;
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum.total += expf(values[j] - top);
  }
  return sum;
}

template <class T>
struct LogitRows {
  T* logits;
  const int64_t* labels;
  float* losses;
  int width;
  float logit_scale, gradient_scale;
  const double* divisor;  // of gradient_scale, which is 1 then; null: none

  __device__ __forceinline__ float own_gradient_scale() const {
    return divisor == nullptr ? gradient_scale : static_cast<float>(1.0 / *divisor);
  }
};

template <class T, int kCount>
__device__ __forceinline__ void write_gradient(const LogitRows<T>& p, T* row, int64_t label,
                                               RunningSum sum) {
  const float scale = p.own_gradient_scale() * p.logit_scale, factor = scale / sum.total;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < p.width; i += kRowThreads * kCount) {
    auto pack = load_pack<kCount>(row + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float share = expf(scaled(pack.value[j], p.logit_scale) - sum.top) * factor;
      pack.value[j] = static_cast<T>(i + j == label ? share - scale : share);
    }
    store_pack(row + i, pack);
  }
}

template <class T, int kCount>
__device__ __forceinline__ void write_zeros(T* row, int width) {
  Pack<T, kCount> zeros;
#pragma unroll
  for (int j = 0; j < kCount; ++j) zeros.value[j] = static_cast<T>(0.0f);
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < width; i += kRowThreads * kCount)
    store_pack(row + i, zeros);
}

template <class T, int kCount>
__global__ void __launch_bounds__(kRowThreads) cross_entropy_rows(const LogitRows<T> p) {
  SFTBENCH_BLOCK_SHARED(float, tops, [kRowThreads / kWarpThreads]);
  SFTBENCH_BLOCK_SHARED(float, totals, [kRowThreads / kWarpThreads]);
  T* row = p.logits + int64_t{blockIdx.x} * p.width;
  const int64_t label = p.labels[blockIdx.x];
  if (label == kIgnoredLabel) {  // the same for all threads of the block
    if (threadIdx.x == 0) p.losses[blockIdx.x] = 0.0f;
    if (p.gradient_scale != 0.0f) write_zeros<T, kCount>(row, p.width);
    return;
  }
  RunningSum sum = sum_of_thread<T, kCount>(row, p.width, p.logit_scale);
  const float top = block_reduce<kRowThreads>(sum.top, tops, Maximum());
  sum.total = block_reduce<kRowThreads>(sum.total * expf(sum.top - top), totals, Add());
  sum.top = top;
  if (threadIdx.x == 0) {
    const bool known = label >= 0 && label < p.width;  // else a loss that nobody takes for one
    p.losses[blockIdx.x] =
        known ? logf(sum.total) + top - scaled(row[label], p.logit_scale) : nanf("");
  }
  if (p.gradient_scale == 0.0f) return;
  __syncthreads();  // the label's logit has been read
  write_gradient<T, kCount>(p, row, label, sum);
}

}  // namespace

Tensor cross_entropy_cuda(Tensor& logits, const Tensor& labels, double logit_scale,
                          double gradient_scale, const Tensor& divisor) {
  const int64_t rows = logits.size(0), width = logits.size(1);
  Tensor losses = torch::empty({rows}, logits.options().dtype(torch::kFloat32));
  if (logits.numel() == 0) return losses.zero_().sum(torch::kFloat64);
  const DeviceScope scope(logits);
  for_kernel_type(logits, [&](auto zero) {
    using T = decltype(zero);
    const LogitRows<T> problem = {logits.data_ptr<T>(),
                                  labels.data_ptr<int64_t>(),
                                  losses.data_ptr<float>(),
                                  static_cast<int>(width),
                                  static_cast<float>(logit_scale),
                                  static_cast<float>(gradient_scale),
                                  divisor.defined() ? divisor.data_ptr<double>() : nullptr};
    const LaunchShape shape = {static_cast<unsigned>(rows), kRowThreads};
    takes_packs<T>(width, {logits.data_ptr()})
        ? launch_kernel(cross_entropy_rows<T, kPackCount<T>>, shape, problem)
        : launch_kernel(cross_entropy_rows<T, 1>, shape, problem);
  });
  return losses.sum(torch::kFloat64);
}

}  // namespace sftbench::ops
