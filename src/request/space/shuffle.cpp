#include "space/shuffle.h"

namespace sftbench {
namespace {

// Even over small domains, where each round sees only a bit or two, the orders come out alike
// often.
constexpr int kRounds = 8;

// Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014): the mixer.
uint64_t mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

uint64_t encrypted(uint64_t block, int half_bits, uint64_t seed) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = block >> half_bits;
  uint64_t right = block & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t key = mixed(seed + static_cast<uint64_t>(round));
    const uint64_t next = left ^ (mixed(right ^ key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t shuffled(int64_t index, int64_t count, uint64_t seed) {
  int half_bits = 1;
  while (half_bits < 31 && (int64_t{1} << (2 * half_bits)) < count) ++half_bits;
  auto block = static_cast<uint64_t>(index);
  do {
    block = encrypted(block, half_bits, seed);
  } while (block >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(block);
}

}  // namespace sftbench
