// The mask of Dropout. On CPUs it comes from a counter: SplitMix64's finaliser (Steele, Lea & Flood
// 2014) of the number of a block of four elements gives each of them 16 random bits. Elsewhere it
// comes from libtorch's generator, seeded anew each time.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/checks.h"
#include "sftbench/ops/low_rank.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr double kSteps = 65536.0;
constexpr int64_t kLanes = 4;  // elements that one random number decides

uint64_t random_bits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

int64_t threshold_of(double probability) {
  return std::min<int64_t>(std::llround(probability * kSteps), 65535);
}

// Elements of blocks [begin, end), `most` elements in all. A batch of random numbers is drawn
// first, so that what is done with them are vector operations on 16-bit lanes.
template <typename Word>
void copy_kept(const Word* x, Word* kept, int64_t begin, int64_t end, int64_t most,
               uint16_t threshold, uint64_t seed) {
  constexpr int64_t kBatch = 64;
  std::array<uint64_t, kBatch> bits;
  std::array<uint16_t, kBatch * kLanes> lanes;
  for (int64_t block = begin; block < end; block += kBatch) {
    const int64_t blocks = std::min(kBatch, end - block);
    for (int64_t i = 0; i < blocks; ++i)
      bits[static_cast<size_t>(i)] = random_bits(seed, static_cast<uint64_t>(block + i));
    std::memcpy(lanes.data(), bits.data(), static_cast<size_t>(blocks) * sizeof(uint64_t));
    const int64_t first = block * kLanes, count = std::min(blocks * kLanes, most - first);
    for (int64_t i = 0; i < count; ++i) {
      const bool keeps = lanes[static_cast<size_t>(i)] >= threshold;
      kept[first + i] = static_cast<Word>(x[first + i] & static_cast<Word>(-Word{keeps}));
    }
  }
}

template <typename Word>
void zero_on_cpu(const Tensor& x, Tensor& kept, const Dropout& dropout) {
  const auto threshold = static_cast<uint16_t>(threshold_of(dropout.probability));
  const auto* source = static_cast<const Word*>(x.data_ptr());
  auto* target = static_cast<Word*>(kept.data_ptr());
  const int64_t blocks = (x.numel() + kLanes - 1) / kLanes;
  constexpr int64_t kGrain = 4096;
  at::parallel_for(0, blocks, kGrain, [&](int64_t begin, int64_t end) {
    copy_kept(source, target, begin, end, x.numel(), threshold, dropout.seed);
  });
}

Tensor zero_with_generator(const Tensor& x, const Dropout& dropout) {
  at::Generator generator = at::globalContext().defaultGenerator(x.device()).clone();
  generator.set_current_seed(dropout.seed);
  return torch::empty_like(x).bernoulli_(1.0 - dropout.probability, generator).mul_(x);
}

}  // namespace

Tensor zero_dropped(const Tensor& x, const Dropout& dropout) {
  require_float(x, "zero_dropped", "x");
  require(dropout.probability >= 0.0 && dropout.probability < 1.0, "zero_dropped",
          "a probability in [0, 1)", std::to_string(dropout.probability));
  if (dropout.probability == 0.0) return x;
  if (!x.is_cpu()) return zero_with_generator(x, dropout);
  const Tensor source = x.contiguous();
  Tensor kept = torch::empty_like(source);
  switch (source.element_size()) {
    case 2:
      zero_on_cpu<uint16_t>(source, kept, dropout);
      break;
    case 4:
      zero_on_cpu<uint32_t>(source, kept, dropout);
      break;
    default:
      zero_on_cpu<uint64_t>(source, kept, dropout);
  }
  return kept;
}

double kept_scale(const Tensor& x, const Dropout& dropout) {
  const double probability = x.is_cpu()
                                 ? static_cast<double>(threshold_of(dropout.probability)) / kSteps
                                 : dropout.probability;
  return 1.0 / (1.0 - probability);
}

}  // namespace sftbench::ops
