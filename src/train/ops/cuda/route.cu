// Rows of experts on GPUs: a block for each token, which reads the rows of its choices once and
// adds them up in float32.
#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"
#include "ops/route_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kRouteThreads = 128;
constexpr int kRouteBlocks = 6;  // of a multiprocessor: else ptxas takes few registers, and spills

// Rows of `width` elements: those of the experts, and one for each token.
struct RoutedRows {
  const int64_t* positions;  // [tokens, choices]
  const float* weights;      // [tokens, choices], or null: all 1
  int choices;
  int64_t width;

  __device__ __forceinline__ float weight(int64_t choice) const {
    return weights == nullptr ? 1.0f : weights[choice];
  }
};

template <class T, int kCount>
__global__ void __launch_bounds__(kRouteThreads, kRouteBlocks)
    combine_rows(const RoutedRows p, const T* y, T* out) {
  const int64_t token = blockIdx.x, first_choice = token * p.choices;
  for (int64_t i = int64_t{threadIdx.x} * kCount; i < p.width; i += kRouteThreads * kCount) {
    float sums[kCount] = {};
    for (int64_t choice = first_choice; choice < first_choice + p.choices; ++choice) {
      const float weight = p.weight(choice);
      const auto pack = load_pack<kCount>(y + p.positions[choice] * p.width + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) sums[j] += static_cast<float>(pack.value[j]) * weight;
    }
    Pack<T, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.value[j] = static_cast<T>(sums[j]);
    store_pack(out + token * p.width + i, result);
  }
}

// Rows of the gradient are written where those of y stand.
template <class T, int kCount>
__global__ void __launch_bounds__(kRouteThreads, kRouteBlocks)
    combine_rows_backward(const RoutedRows p, const T* d_out, const T* y, T* dy, float* d_weights) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kRouteThreads / kWarpThreads]);
  const int64_t token = blockIdx.x, first_choice = token * p.choices;
  const T* d_row = d_out + token * p.width;
  for (int64_t choice = first_choice; choice < first_choice + p.choices; ++choice) {
    const int64_t begin = p.positions[choice] * p.width;
    const float weight = p.weight(choice);
    float dot = 0.0f;
    for (int64_t i = int64_t{threadIdx.x} * kCount; i < p.width; i += kRouteThreads * kCount) {
      const auto d_pack = load_pack<kCount>(d_row + i), y_pack = load_pack<kCount>(y + begin + i);
      Pack<T, kCount> result;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto d = static_cast<float>(d_pack.value[j]);
        dot += d * static_cast<float>(y_pack.value[j]);
        result.value[j] = static_cast<T>(d * weight);
      }
      store_pack(dy + begin + i, result);
    }
    const float total = block_reduce<kRouteThreads>(dot, scratch, Add());
    if (threadIdx.x == 0) d_weights[choice] = total;
    __syncthreads();  // the next choice writes the scratch
  }
}

RoutedRows routed_rows(const Tensor& y, const Tensor& weights, const Tensor& positions) {
  return {positions.data_ptr<int64_t>(), weights.defined() ? weights.data_ptr<float>() : nullptr,
          static_cast<int>(positions.size(1)), y.size(1)};
}

LaunchShape route_shape(const Tensor& positions) {
  return {static_cast<unsigned>(positions.size(0)), kRouteThreads};
}

Routes sort(const Tensor& experts, int64_t expert_count) {
  return kRouteAten.sort(experts, expert_count);
}

Tensor gather(const Tensor& x, const Tensor& tokens) {
  return kRouteAten.gather(x, tokens);
}

Tensor combine(const Tensor& y, const Tensor& weights, const Tensor& positions) {
  const DeviceScope scope(y);
  Tensor out = torch::empty({positions.size(0), y.size(1)}, y.options());
  if (out.numel() == 0) return out;
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto count) {
      launch_kernel(combine_rows<T, count.value>, route_shape(positions),
                    routed_rows(y, weights, positions), y.data_ptr<T>(), out.data_ptr<T>());
    };
    takes_packs<T>(y.size(1), {y.data_ptr(), out.data_ptr()})
        ? launch(std::integral_constant<int, kPackCount<T>>())
        : launch(std::integral_constant<int, 1>());
  });
  return out;
}

std::pair<Tensor, Tensor> combine_backward(const Tensor& output_gradient, const Tensor& y,
                                           const Tensor& weights, const Tensor& positions) {
  const DeviceScope scope(y);
  const Tensor dy = torch::empty_like(y), d_weights = torch::empty_like(weights);
  if (dy.numel() == 0) return {dy, d_weights.zero_()};
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto count) {
      launch_kernel(combine_rows_backward<T, count.value>, route_shape(positions),
                    routed_rows(y, weights, positions), output_gradient.data_ptr<T>(),
                    y.data_ptr<T>(), dy.data_ptr<T>(), d_weights.data_ptr<float>());
    };
    takes_packs<T>(y.size(1), {output_gradient.data_ptr(), y.data_ptr(), dy.data_ptr()})
        ? launch(std::integral_constant<int, kPackCount<T>>())
        : launch(std::integral_constant<int, 1>());
  });
  return {dy, d_weights};
}

}  // namespace

const RouteImpl kRouteCuda{sort, gather, combine, combine_backward};

}  // namespace sftbench::ops
