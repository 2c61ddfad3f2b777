// Dequantization of NF4 on GPUs: each thread reads the codes of eight neighboring elements of a row
// and writes them at once. Rows whose blocks begin elsewhere go element by element.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/dequantize_impl.h"

namespace sftbench::ops {
namespace {

constexpr int kElements = 8;  // of a thread
constexpr int kThreads = 128;

// As an argument: constants of the host are none of the device.
struct Values {
  float of[16];
};

struct Nf4Problem {
  const uint8_t* codes;
  const float* absmax;
  int64_t in_features;
  FeatureRange out, in;
};

__device__ __forceinline__ float nf4_element(const Nf4Problem& p, const float* values,
                                             int64_t place) {
  const uint8_t pair = p.codes[place / 2];
  return values[place % 2 == 0 ? pair >> 4 : pair & 15] * p.absmax[place / kNf4Block];
}

// One thread block row for each output feature.
template <class T>
__global__ void dequantize_nf4_rows(Nf4Problem p, const __grid_constant__ Values table, T* target) {
  SFTBENCH_BLOCK_SHARED(float, values, [16]);
  if (threadIdx.x < 16) values[threadIdx.x] = table.of[threadIdx.x];
  __syncthreads();
  const int64_t column = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kElements;
  if (column >= p.in.count) return;
  const int64_t row = blockIdx.y;
  const int64_t first = (p.out.begin + row) * p.in_features + p.in.begin + column;
  T* out = target + row * p.in.count + column;
  const bool whole =
      p.in_features % kNf4Block == 0 && p.in.begin % kNf4Block == 0 && p.in.count % kElements == 0;
  if (!whole) {
    for (int i = 0; i < kElements && column + i < p.in.count; ++i)
      out[i] = static_cast<T>(nf4_element(p, values, first + i));
    return;
  }
  const auto pairs = load_pack<kElements / 2>(p.codes + first / 2);
  const float absmax = p.absmax[first / kNf4Block];
  constexpr int kAtOnce = kPackCount<T> < kElements ? kPackCount<T> : kElements;
#pragma unroll
  for (int begin = 0; begin < kElements; begin += kAtOnce) {
    Pack<T, kAtOnce> some;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const uint8_t pair = pairs.value[(begin + i) / 2];
      some.value[i] = static_cast<T>(values[i % 2 == 0 ? pair >> 4 : pair & 15] * absmax);
    }
    store_pack(out + begin, some);
  }
}

template <class T>
void launch_nf4(const Nf4Problem& p, torch::Tensor& target) {
  constexpr int64_t kMostRows = 65535;
  const int64_t per_block = int64_t{kThreads} * kElements;
  const int64_t columns = (p.in.count + per_block - 1) / per_block;
  Values table;
  for (size_t i = 0; i < kNf4Values.size(); ++i) table.of[i] = kNf4Values[i];
  auto* out = static_cast<T*>(target.data_ptr());
  // Grids have a limited height.
  for (int64_t begin = 0; begin < p.out.count; begin += kMostRows) {
    Nf4Problem part = p;
    part.out = {p.out.begin + begin, std::min(kMostRows, p.out.count - begin)};
    const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(part.out.count));
    launch_kernel(dequantize_nf4_rows<T>, {grid, kThreads}, part, table, out + begin * p.in.count);
  }
}

}  // namespace

void dequantize_nf4_cuda(torch::Tensor& target, const Nf4Weight& weight,
                         const torch::Tensor& absmax, FeatureRange out, FeatureRange in) {
  const DeviceScope scope(target);
  const Nf4Problem problem = {static_cast<const uint8_t*>(weight.codes.data_ptr()),
                              static_cast<const float*>(absmax.data_ptr()), weight.in, out, in};
  switch (target.scalar_type()) {
    case at::kHalf:
      return launch_nf4<at::Half>(problem, target);
    case at::kBFloat16:
      return launch_nf4<at::BFloat16>(problem, target);
    default:
      return launch_nf4<float>(problem, target);
  }
}

}  // namespace sftbench::ops
