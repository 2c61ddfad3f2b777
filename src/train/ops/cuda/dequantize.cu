// Dequantization on GPUs: each thread reads 16 bytes of codes at a time (one word of four
// neighboring output features) and writes four elements of each input feature that they hold, so
// that a warp reads 512 and writes 256 successive bytes. Scales and zeros are read again where the
// group changes.
#include <algorithm>

#include "ops/cuda/pack.h"
#include "ops/dequantize_impl.h"

namespace sftbench::ops {
namespace {

constexpr int kColumns = 4;  // of a thread
constexpr int kThreads = 128;

struct Problem {
  const uint32_t* codes;
  const uint32_t* zeros;
  const at::Half* scales;
  const int32_t* groups;
  int64_t out_features, zero_words;  // lengths of the rows of codes and of zeros
  FeatureRange in, out;
  bool zeros_less_one;
};

// Scale and scale * zero of a thread's columns.
struct Group {
  float scale[kColumns], scaled_zero[kColumns];
};

template <int kBits>
__device__ __forceinline__ Group load_group(const Problem& p, int32_t group, int64_t column) {
  const auto scales = load_pack<kColumns>(p.scales + group * p.out_features + column);
  const uint32_t* row = p.zeros + group * p.zero_words;
  Group result;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    result.scale[c] = static_cast<float>(scales.value[c]);
    const uint32_t zero = zero_code(row, column + c, kBits, p.zeros_less_one);
    result.scaled_zero[c] = result.scale[c] * static_cast<float>(zero);
  }
  return result;
}

// Code `j` of those that begin in the first of a column's words.
template <int kBits, int kWords>
__device__ __forceinline__ float extract(const uint32_t (&words)[kWords][kColumns], int column,
                                         int j) {
  const int bit = j * kBits, word = bit / 32, shift = bit % 32;
  uint32_t code = words[word][column] >> shift;
  if (kWords > 1 && shift + kBits > 32) code |= words[(word + 1) % kWords][column] << (32 - shift);
  return static_cast<float>(code & ((1u << kBits) - 1u));
}

// One thread block row for each run of words that hold whole codes.
template <int kBits, class T>
__global__ void dequantize_words(Problem p, T* target) {
  constexpr int kWords = kBits == 3 ? 3 : 1, kFeatures = kWords * 32 / kBits;
  const int64_t column = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kColumns;
  if (column >= p.out.count) return;
  const int64_t first = int64_t{blockIdx.y} * kFeatures;  // of the range
  const uint32_t* codes =
      p.codes + (p.in.begin + first) * kBits / 32 * p.out_features + p.out.begin + column;
  uint32_t words[kWords][kColumns];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    const auto loaded = load_pack<kColumns>(codes + w * p.out_features);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) words[w][c] = loaded.value[c];
  }
  const int32_t* groups = p.groups + p.in.begin + first;
  int32_t current = groups[0];
  Group group = load_group<kBits>(p, current, p.out.begin + column);
#pragma unroll
  for (int j = 0; j < kFeatures; ++j) {
    if (groups[j] != current) {  // the same for all threads of the block
      current = groups[j];
      group = load_group<kBits>(p, current, p.out.begin + column);
    }
    Pack<T, kColumns> four;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float code = extract<kBits, kWords>(words, c, j);
      four.value[c] = static_cast<T>(code * group.scale[c] - group.scaled_zero[c]);
    }
    store_pack(target + (first + j) * p.out.count + column, four);
  }
}

template <int kBits, class T>
void launch(const Problem& p, torch::Tensor& target) {
  constexpr int64_t kFeatures = kBits == 3 ? 32 : 32 / kBits, kMostRows = 65535;
  const int64_t columns = (p.out.count / kColumns + kThreads - 1) / kThreads;
  auto* out = static_cast<T*>(target.data_ptr());
  // Grids have a limited height.
  for (int64_t begin = 0; begin < p.in.count; begin += kMostRows * kFeatures) {
    Problem part = p;
    part.in = {p.in.begin + begin, std::min(kMostRows * kFeatures, p.in.count - begin)};
    const dim3 grid(static_cast<unsigned>(columns),
                    static_cast<unsigned>(part.in.count / kFeatures));
    launch_kernel(dequantize_words<kBits, T>, {grid, kThreads}, part, out + begin * p.out.count);
  }
}

template <class T>
void launch(const Problem& p, int bits, torch::Tensor& target) {
  switch (bits) {
    case 2:
      return launch<2, T>(p, target);
    case 3:
      return launch<3, T>(p, target);
    case 4:
      return launch<4, T>(p, target);
    default:
      return launch<8, T>(p, target);
  }
}

}  // namespace

void dequantize_cuda(torch::Tensor& target, const GptqWeight& weight, FeatureRange in,
                     FeatureRange out) {
  const DeviceScope scope(target);
  const Problem problem = {static_cast<const uint32_t*>(weight.qweight.data_ptr()),
                           static_cast<const uint32_t*>(weight.qzeros.data_ptr()),
                           static_cast<const at::Half*>(weight.scales.data_ptr()),
                           static_cast<const int32_t*>(weight.g_idx.data_ptr()),
                           weight.out_features(),
                           weight.qzeros.size(1),
                           in,
                           out,
                           weight.zeros_less_one};
  switch (target.scalar_type()) {
    case at::kHalf:
      return launch<at::Half>(problem, weight.bits, target);
    case at::kBFloat16:
      return launch<at::BFloat16>(problem, weight.bits, target);
    default:
      return launch<float>(problem, weight.bits, target);
  }
}

}  // namespace sftbench::ops
