// The gated norm on GPUs: a block for each row and group, which reads it twice, the second time
// from the cache. The weight's gradient is summed in float32 by blocks that take many rows each,
// then over the blocks: the same sum in every run.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/sigmoid.h"
#include "ops/gated_norm_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kGatedThreads = 256;

// y [rows, groups, width]; rows of the gate are `gate_stride` apart. A block takes the rows of one
// group from blockIdx.x on, each gridDim.x further.
template <class T>
struct GatedRows {
  const T *y, *gate;
  int64_t gate_stride;
  const float* weight;
  float* rstd;
  int64_t rows;
  int groups, width;

  __device__ __forceinline__ int64_t place(int64_t row) const {
    return row * groups + static_cast<int64_t>(blockIdx.y);
  }
  __device__ __forceinline__ const T* gate_of(int64_t row) const {
    return gate + row * gate_stride + int64_t{blockIdx.y} * width;
  }
};

template <class T, int kCount>
__global__ void __launch_bounds__(kGatedThreads)
    gated_norm_forward(const GatedRows<T> p, float epsilon, T* out_all) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kGatedThreads / kWarpThreads]);
  const int first = static_cast<int>(threadIdx.x) * kCount;
  const float* weight = p.weight + int64_t{blockIdx.y} * p.width;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t place = p.place(row);
    const T *y = p.y + place * p.width, *gate = p.gate_of(row);
    T* out = out_all + place * p.width;
    float squares = 0.0f;
    for (int i = first; i < p.width; i += kGatedThreads * kCount) {
      const auto y_pack = load_pack<kCount>(y + i), gate_pack = load_pack<kCount>(gate + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto g = static_cast<float>(gate_pack.value[j]);
        const float v = static_cast<float>(y_pack.value[j]) * g * sigmoid(g);
        squares += v * v;
      }
    }
    const float total = block_reduce<kGatedThreads>(squares, scratch, Add());
    const float scale = 1.0f / __fsqrt_rn(total / static_cast<float>(p.width) + epsilon);
    if (threadIdx.x == 0) p.rstd[place] = scale;
    for (int i = first; i < p.width; i += kGatedThreads * kCount) {
      const auto y_pack = load_pack<kCount>(y + i), gate_pack = load_pack<kCount>(gate + i);
      float w[kCount];
      load_floats<kCount>(weight + i, w);
      Pack<T, kCount> result;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto g = static_cast<float>(gate_pack.value[j]);
        const float v = static_cast<float>(y_pack.value[j]) * g * sigmoid(g);
        result.value[j] = static_cast<T>(v * scale * w[j]);
      }
      store_pack(out + i, result);
    }
    __syncthreads();  // the next row writes the scratch
  }
}

// `partial` [gridDim.x, groups, width].
template <class T, int kCount>
__global__ void __launch_bounds__(kGatedThreads)
    gated_norm_backward(const GatedRows<T> p, const T* d_out_all, T* dy_all, T* d_gate_all,
                        float* partial) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kGatedThreads / kWarpThreads]);
  float* sums = dynamic_shared<float>();  // each thread has its own elements
  const int first = static_cast<int>(threadIdx.x) * kCount;
  const float* weight = p.weight + int64_t{blockIdx.y} * p.width;
  for (int i = first; i < p.width; i += kGatedThreads * kCount) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) sums[i + j] = 0.0f;
  }
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t place = p.place(row);
    const T *y = p.y + place * p.width, *gate = p.gate_of(row);
    const T* d_out = d_out_all + place * p.width;
    const float scale = p.rstd[place];
    float dot = 0.0f;
    for (int i = first; i < p.width; i += kGatedThreads * kCount) {
      const auto y_pack = load_pack<kCount>(y + i), gate_pack = load_pack<kCount>(gate + i);
      const auto d_pack = load_pack<kCount>(d_out + i);
      float w[kCount];
      load_floats<kCount>(weight + i, w);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto g = static_cast<float>(gate_pack.value[j]);
        const float normalized = static_cast<float>(y_pack.value[j]) * g * sigmoid(g) * scale;
        const float product = static_cast<float>(d_pack.value[j]) * normalized;
        dot += product * w[j];
        sums[i + j] += product;
      }
    }
    const float mean =
        block_reduce<kGatedThreads>(dot, scratch, Add()) / static_cast<float>(p.width);
    for (int i = first; i < p.width; i += kGatedThreads * kCount) {
      const auto y_pack = load_pack<kCount>(y + i), gate_pack = load_pack<kCount>(gate + i);
      const auto d_pack = load_pack<kCount>(d_out + i);
      float w[kCount];
      load_floats<kCount>(weight + i, w);
      Pack<T, kCount> dy, d_gate;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto g = static_cast<float>(gate_pack.value[j]);
        const auto v = static_cast<float>(y_pack.value[j]);
        const float s = sigmoid(g), normalized = v * g * s * scale;
        const float dv = (static_cast<float>(d_pack.value[j]) * w[j] - normalized * mean) * scale;
        dy.value[j] = static_cast<T>(dv * g * s);
        d_gate.value[j] = static_cast<T>(dv * v * s * (1.0f + g * (1.0f - s)));
      }
      store_pack(dy_all + place * p.width + i, dy);
      store_pack(d_gate_all + place * p.width + i, d_gate);
    }
    __syncthreads();  // the next row writes the scratch
  }
  float* out = partial + (int64_t{blockIdx.x} * p.groups + blockIdx.y) * p.width;
  for (int i = first; i < p.width; i += kGatedThreads * kCount) {
    for (int j = 0; j < kCount; ++j) out[i + j] = sums[i + j];
  }
}

template <class T>
GatedRows<T> gated_rows(const Tensor& y, const Tensor& gate, const Tensor& weight,
                        const Tensor& rstd) {
  return {y.data_ptr<T>(),
          gate.data_ptr<T>(),
          gate.stride(0),
          weight.data_ptr<float>(),
          rstd.data_ptr<float>(),
          y.size(0),
          static_cast<int>(y.size(1)),
          static_cast<int>(y.size(2))};
}

template <class T>
bool gated_takes_packs(const GatedRows<T>& p, std::initializer_list<const void*> results) {
  return takes_packs<T>(p.width, results) && takes_packs<T>(p.gate_stride, {p.y, p.gate, p.weight});
}

LaunchShape gated_shape(int64_t blocks, const Tensor& y, int64_t shared_bytes) {
  return {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(y.size(1))), kGatedThreads,
          static_cast<size_t>(shared_bytes)};
}

void forward(const Tensor& y, const Tensor& gate, const Tensor& weight, double epsilon, Tensor& out,
             Tensor& rstd) {
  const DeviceScope scope(y);
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    const GatedRows<T> p = gated_rows<T>(y, gate, weight, rstd);
    const auto launch = [&](auto count) {
      launch_kernel(gated_norm_forward<T, count.value>, gated_shape(p.rows, y, 0), p,
                    static_cast<float>(epsilon), out.data_ptr<T>());
    };
    gated_takes_packs(p, {out.data_ptr()}) ? launch(std::integral_constant<int, kPackCount<T>>())
                                           : launch(std::integral_constant<int, 1>());
  });
}

GatedNormGradients backward(const Tensor& out_gradient, const Tensor& y, const Tensor& gate,
                            const Tensor& weight, const Tensor& rstd) {
  constexpr int64_t kSharedBytes = int64_t{46} << 10, kBlocksPerProcessor = 4;
  const int64_t sums_bytes = y.size(2) * static_cast<int64_t>(sizeof(float));
  if (sums_bytes > kSharedBytes)
    return kGatedNormAten.backward(out_gradient, y, gate, weight, rstd);
  const DeviceScope scope(y);
  const int64_t blocks = std::min(y.size(0), kBlocksPerProcessor * multiprocessors());
  const Tensor dy = torch::empty(y.sizes(), y.options()), d_gate = torch::empty_like(dy);
  const Tensor partial = torch::empty({blocks, y.size(1), y.size(2)}, weight.options());
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    const GatedRows<T> p = gated_rows<T>(y, gate, weight, rstd);
    const auto launch = [&](auto count) {
      launch_kernel(gated_norm_backward<T, count.value>, gated_shape(blocks, y, sums_bytes), p,
                    out_gradient.data_ptr<T>(), dy.data_ptr<T>(), d_gate.data_ptr<T>(),
                    partial.data_ptr<float>());
    };
    gated_takes_packs(p, {out_gradient.data_ptr(), dy.data_ptr(), d_gate.data_ptr()})
        ? launch(std::integral_constant<int, kPackCount<T>>())
        : launch(std::integral_constant<int, 1>());
  });
  return {dy, d_gate, partial.sum(0)};
}

}  // namespace

const GatedNormImpl kGatedNormCuda{forward, backward};

}  // namespace sftbench::ops
