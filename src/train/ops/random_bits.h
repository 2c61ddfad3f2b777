// SplitMix64's finalizer, inlined everywhere: it is compiled for several instruction sets, and for
// GPUs (which take what is constexpr).
#pragma once

#include <cstdint>

namespace sftbench::ops {

static inline __attribute__((always_inline)) constexpr uint64_t random_bits(uint64_t seed,
                                                                            uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

}  // namespace sftbench::ops
