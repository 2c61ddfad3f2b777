// RMSNorm on GPUs, with the residual additions around it: a block for each row, which reads it
// twice, the second time from the cache. The weight's gradient is summed in float32 by blocks that
// take many rows each, then over the blocks: the same sum in every run.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"
#include "ops/rms_norm_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

template <class T>
struct RmsNormForward {
  const T *x, *addend, *weight;  // addend: null where x is normalized
  T *sum, *y;                    // sum: null without an addend
  float* rstd;
  float scale;  // of the addend
  int width;
  float epsilon;
};

// What is normalized: elements of x, or of the sum, which is written.
template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> add_up(const RmsNormForward<T>& p, int64_t place) {
  auto pack = load_pack<kCount>(p.x + place);
  if (p.addend == nullptr) return pack;
  const auto addend = load_pack<kCount>(p.addend + place);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    pack.value[j] = static_cast<T>(static_cast<float>(pack.value[j]) +
                                   p.scale * static_cast<float>(addend.value[j]));
  }
  store_pack(p.sum + place, pack);
  return pack;
}

template <class T, int kCount, int kThreads>
__global__ void __launch_bounds__(kThreads) rms_norm_forward(const RmsNormForward<T> p) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kThreads / kWarpThreads]);
  const int width = p.width;
  const int64_t row = blockIdx.x, first = row * width;
  const T *weight = p.weight, *x = (p.addend == nullptr ? p.x : p.sum) + first;
  T* y = p.y + first;
  float squares = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    const auto pack = add_up<kCount>(p, first + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const auto v = static_cast<float>(pack.value[j]);
      squares += v * v;
    }
  }
  const float total = block_reduce<kThreads>(squares, scratch, Add());
  const float scale = 1.0f / __fsqrt_rn(total / static_cast<float>(width) + p.epsilon);
  if (threadIdx.x == 0) p.rstd[row] = scale;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < width; i += kThreads * kCount) {
    const auto pack = load_pack<kCount>(x + i), w = load_pack<kCount>(weight + i);
    Pack<T, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      // Rounded before the product with the weight, as transformers does.
      const auto normalized = static_cast<T>(static_cast<float>(pack.value[j]) * scale);
      result.value[j] =
          static_cast<T>(static_cast<float>(normalized) * static_cast<float>(w.value[j]));
    }
    store_pack(y + i, result);
  }
}

template <class T>
struct RmsNormBackward {
  const T *dy, *dx_before, *x, *weight;  // dx_before: added to dx, or null
  const float* rstd;
  T* dx;
  float* partial;  // [blocks, width], or null
  int64_t rows;
  int width;
};

// The row's mean of dy * weight * normalized; on the way the weight's gradient is added to `sums`,
// of which each thread has its own elements.
template <class T, int kCount, int kThreads>
__device__ __forceinline__ float mean_product(const RmsNormBackward<T>& p, int64_t row,
                                              float* scratch, float* sums) {
  const float scale = p.rstd[row];
  const T *dy = p.dy + row * p.width, *x = p.x + row * p.width;
  float dot = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) * kCount; i < p.width; i += kThreads * kCount) {
    const auto d = load_pack<kCount>(dy + i), v = load_pack<kCount>(x + i);
    const auto w = load_pack<kCount>(p.weight + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float product =
          static_cast<float>(d.value[j]) * (static_cast<float>(v.value[j]) * scale);
      dot += product * static_cast<float>(w.value[j]);
      if (p.partial != nullptr) sums[i + j] += product;
    }
  }
  return block_reduce<kThreads>(dot, scratch, Add()) / static_cast<float>(p.width);
}

template <class T, int kCount, int kThreads>
__global__ void __launch_bounds__(kThreads) rms_norm_backward(const RmsNormBackward<T> p) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kThreads / kWarpThreads]);
  float* sums = dynamic_shared<float>();
  const int first = static_cast<int>(threadIdx.x) * kCount;
  if (p.partial != nullptr) {
    for (int i = first; i < p.width; i += kThreads * kCount) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) sums[i + j] = 0.0f;
    }
  }
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const float mean = mean_product<T, kCount, kThreads>(p, row, scratch, sums);
    const float scale = p.rstd[row];
    for (int i = first; i < p.width; i += kThreads * kCount) {
      const auto d = load_pack<kCount>(p.dy + row * p.width + i);
      const auto v = load_pack<kCount>(p.x + row * p.width + i);
      const auto w = load_pack<kCount>(p.weight + i);
      Pack<T, kCount> result = {};
      if (p.dx_before != nullptr) result = load_pack<kCount>(p.dx_before + row * p.width + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float normalized = static_cast<float>(v.value[j]) * scale;
        const float dn = static_cast<float>(d.value[j]) * static_cast<float>(w.value[j]);
        result.value[j] =
            static_cast<T>((dn - normalized * mean) * scale + static_cast<float>(result.value[j]));
      }
      store_pack(p.dx + row * p.width + i, result);
    }
    __syncthreads();  // the next row writes the scratch
  }
  if (p.partial == nullptr) return;
  for (int i = first; i < p.width; i += kThreads * kCount) {
    for (int j = 0; j < kCount; ++j) p.partial[int64_t{blockIdx.x} * p.width + i + j] = sums[i + j];
  }
}

// body(count of a pack, threads of a block) for rows of this width: narrow rows take one warp.
template <class T, class Body>
void for_row_shape(int64_t width, bool packs, const Body& body) {
  const auto with_count = [&](auto count) {
    const int64_t loads = width / count;
    if (loads <= 128) return body(count, std::integral_constant<int, 32>());
    if (loads <= 384) return body(count, std::integral_constant<int, 128>());
    body(count, std::integral_constant<int, 256>());
  };
  packs ? with_count(std::integral_constant<int, kPackCount<T>>())
        : with_count(std::integral_constant<int, 1>());
}

// Its address, null where it is undefined.
template <class T>
T* address(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

void forward(const RmsNormInput& input, const Tensor& weight, double epsilon, Tensor& y,
             Tensor& rstd) {
  const Tensor& x = input.x;
  if (x.numel() == 0) return rstd.zero_(), void();
  const DeviceScope scope(x);
  for_kernel_type(x, [&](auto zero) {
    using T = decltype(zero);
    const RmsNormForward<T> problem = {x.data_ptr<T>(),
                                       address<T>(input.addend),
                                       weight.data_ptr<T>(),
                                       address<T>(input.sum),
                                       y.data_ptr<T>(),
                                       rstd.data_ptr<float>(),
                                       static_cast<float>(input.scale),
                                       static_cast<int>(x.size(1)),
                                       static_cast<float>(epsilon)};
    const bool packs = takes_packs<T>(
        x.size(1), {problem.x, problem.addend, problem.weight, problem.sum, problem.y});
    for_row_shape<T>(x.size(1), packs, [&](auto count, auto threads) {
      launch_kernel(rms_norm_forward<T, count.value, threads.value>,
                    {static_cast<unsigned>(x.size(0)), static_cast<unsigned>(threads.value)},
                    problem);
    });
  });
}

RmsNormGradients backward(const Tensor& y_gradient, const Tensor& x_gradient, const Tensor& x,
                          const Tensor& weight, const Tensor& rstd, bool weight_too) {
  constexpr int64_t kSharedBytes = int64_t{46} << 10, kBlocksPerProcessor = 4;
  const int64_t rows = x.size(0), width = x.size(1);
  const int64_t sums_bytes = weight_too ? width * static_cast<int64_t>(sizeof(float)) : 0;
  if (x.numel() == 0 || sums_bytes > kSharedBytes)
    return kRmsNormAten.backward(y_gradient, x_gradient, x, weight, rstd, weight_too);
  const DeviceScope scope(x);
  const int64_t blocks =
      weight_too ? std::min(rows, kBlocksPerProcessor * multiprocessors()) : rows;
  Tensor dx = torch::empty_like(x);
  const Tensor partial = weight_too ? torch::empty({blocks, width}, rstd.options()) : Tensor();
  for_kernel_type(x, [&](auto zero) {
    using T = decltype(zero);
    const RmsNormBackward<T> problem = {y_gradient.data_ptr<T>(),
                                        address<T>(x_gradient),
                                        x.data_ptr<T>(),
                                        weight.data_ptr<T>(),
                                        rstd.data_ptr<float>(),
                                        dx.data_ptr<T>(),
                                        weight_too ? partial.data_ptr<float>() : nullptr,
                                        rows,
                                        static_cast<int>(width)};
    const bool packs = takes_packs<T>(
        width, {problem.dy, problem.dx_before, problem.x, problem.weight, problem.dx});
    for_row_shape<T>(width, packs, [&](auto count, auto threads) {
      launch_kernel(rms_norm_backward<T, count.value, threads.value>,
                    {static_cast<unsigned>(blocks), static_cast<unsigned>(threads.value),
                     static_cast<size_t>(sums_bytes)},
                    problem);
    });
  });
  return {dx, weight_too ? partial.sum(0) : Tensor()};
}

}  // namespace

const RmsNormImpl kRmsNormCuda{forward, backward};

}  // namespace sftbench::ops
