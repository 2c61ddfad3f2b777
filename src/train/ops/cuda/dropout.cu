// Dropout on GPUs: the same elements as on CPUs, whose choice is a function of the seed and their
// place. Bits are copied as they are, whatever number they stand for.
#include "ops/cuda/pack.h"
#include "ops/dropout_impl.h"
#include "ops/random_bits.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int kDropoutThreads = 256;
constexpr int kLanes = 4;     // elements that one random number decides
constexpr int kElements = 8;  // of a thread

struct DropoutChoice {
  uint64_t seed;
  unsigned threshold;

  __device__ __forceinline__ bool keeps(uint64_t bits, int lane) const {
    return (static_cast<unsigned>(bits >> (16 * lane)) & 0xffffu) >= threshold;
  }
};

template <class Word, int kCount>
__global__ void __launch_bounds__(kDropoutThreads)
    zero_dropped(const Word* x, Word* kept, int64_t numel, DropoutChoice choice) {
  const int64_t begin = (int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x) * kElements;
  if (begin >= numel) return;
  uint64_t bits[kElements / kLanes];
#pragma unroll
  for (int i = 0; i < kElements / kLanes; ++i)
    bits[i] = random_bits(choice.seed, static_cast<uint64_t>(begin / kLanes + i));
  if constexpr (kCount > 1) {
    if (begin + kElements <= numel) {
#pragma unroll
      for (int i = 0; i < kElements; i += kCount) {
        auto pack = load_pack<kCount>(x + begin + i);
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          if (!choice.keeps(bits[(i + j) / kLanes], (i + j) % kLanes)) pack.value[j] = 0;
        }
        store_pack(kept + begin + i, pack);
      }
      return;
    }
  }
#pragma unroll  // else the random numbers would lie in memory
  for (int i = 0; i < kElements; ++i) {
    if (begin + i >= numel) continue;
    kept[begin + i] =
        choice.keeps(bits[i / kLanes], i % kLanes) ? x[begin + i] : static_cast<Word>(0);
  }
}

template <class Word>
void launch(const Tensor& x, const Tensor& kept, const DropoutChoice& choice) {
  const auto* source = static_cast<const Word*>(x.data_ptr());
  auto* target = static_cast<Word*>(kept.data_ptr());
  const int64_t threads = (x.numel() + kElements - 1) / kElements;
  const LaunchShape shape = {
      static_cast<unsigned>((threads + kDropoutThreads - 1) / kDropoutThreads), kDropoutThreads};
  const auto with = [&](auto count) {
    launch_kernel(zero_dropped<Word, count.value>, shape, source, target, x.numel(), choice);
  };
  takes_packs<Word>(kElements, {source, target})
      ? with(std::integral_constant<int, kPackCount<Word>>())
      : with(std::integral_constant<int, 1>());
}

}  // namespace

void zero_dropped_cuda(const Tensor& x, const Tensor& kept, uint16_t threshold, uint64_t seed) {
  if (x.numel() == 0) return;
  const DeviceScope scope(x);
  const DropoutChoice choice = {seed, threshold};
  switch (x.element_size()) {
    case 2:
      return launch<uint16_t>(x, kept, choice);
    case 4:
      return launch<uint32_t>(x, kept, choice);
    default:
      return launch<uint64_t>(x, kept, choice);
  }
}

}  // namespace sftbench::ops
