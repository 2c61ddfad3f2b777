// Biases of experts on GPUs, added to rows that are sorted by expert: some blocks take the rows of
// each expert.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/grouped_products.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kBiasThreads = 256;

// y [rows, width], bias [gridDim.y, width]; the rows of expert e end at ends[e].
template <class T, int kCount>
__global__ void __launch_bounds__(kBiasThreads)
    add_expert_bias(T* y, const T* bias, const int32_t* ends, int64_t width) {
  const auto expert = static_cast<int64_t>(blockIdx.y);
  const int64_t begin = expert == 0 ? 0 : ends[expert - 1], end = ends[expert];
  for (int64_t row = begin + blockIdx.x; row < end; row += gridDim.x) {
    for (int64_t i = int64_t{threadIdx.x} * kCount; i < width; i += kBiasThreads * kCount) {
      auto y_pack = load_pack<kCount>(y + row * width + i);
      const auto bias_pack = load_pack<kCount>(bias + expert * width + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        y_pack.value[j] = static_cast<T>(static_cast<float>(y_pack.value[j]) +
                                         static_cast<float>(bias_pack.value[j]));
      }
      store_pack(y + row * width + i, y_pack);
    }
  }
}

}  // namespace

void add_expert_bias_cuda(const Tensor& y, const Tensor& bias, const Tensor& ends) {
  constexpr int64_t kBlocksPerProcessor = 8;
  if (y.numel() == 0) return;
  const DeviceScope scope(y);
  const int64_t experts = bias.size(0), blocks = kBlocksPerProcessor * multiprocessors();
  const LaunchShape shape = {dim3(static_cast<unsigned>(std::max<int64_t>(1, blocks / experts)),
                                  static_cast<unsigned>(experts)),
                             kBiasThreads};
  for_kernel_type(y, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto count) {
      launch_kernel(add_expert_bias<T, count.value>, shape, y.data_ptr<T>(), bias.data_ptr<T>(),
                    ends.data_ptr<int32_t>(), y.size(1));
    };
    takes_packs<T>(y.size(1), {y.data_ptr(), bias.data_ptr()})
        ? launch(std::integral_constant<int, kPackCount<T>>())
        : launch(std::integral_constant<int, 1>());
  });
}

}  // namespace sftbench::ops
