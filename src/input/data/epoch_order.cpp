#include "data/epoch_order.h"

#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// From here on torch.randperm draws 64-bit numbers and shuffles inside out.
constexpr int64_t kLargePermutation = 0xFFFFFFFFLL / 20;

}  // namespace

std::vector<int64_t> random_permutation(int64_t n, uint64_t seed) {
  if (n >= kLargePermutation) {
    throw InputError("a dataset of " + std::to_string(n) +
                     " entries cannot be shuffled; expected fewer than " +
                     std::to_string(kLargePermutation));
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  // torch seeds its Mersenne twister with the low 32 bits.
  std::mt19937 generator(static_cast<uint32_t>(seed));
  for (int64_t i = 0; i + 1 < n; ++i) {
    const int64_t step = static_cast<int64_t>(generator()) % (n - i);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(i + step)]);
  }
  return order;
}

std::vector<int64_t> epoch_order(int64_t entries, uint64_t seed, int64_t epoch) {
  return random_permutation(entries, seed + static_cast<uint64_t>(epoch));
}

}  // namespace sftbench
