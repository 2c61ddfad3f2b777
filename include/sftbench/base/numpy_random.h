// What numpy.random.default_rng(seed) draws, bit for bit: the package datasets splits and mixes
// with it, and so do those who use it. Sources: O'Neill 2014 (PCG XSL RR 128/64), her seed
// sequences as numpy has them (numpy/random/bit_generator.pyx), random_interval() for shuffling.
#pragma once

#include <cstdint>
#include <vector>

namespace sftbench {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  // In [0, 1).
  double uniform();
  // Generator.permutation(n).
  std::vector<int64_t> permutation(int64_t n);

 private:
  __extension__ typedef unsigned __int128 uint128;

  uint64_t next64();
  uint32_t next32();
  uint32_t up_to(uint32_t most);

  uint128 state_ = 0, increment_ = 0;
  bool has_half_ = false;  // of a number whose first half was taken
  uint32_t half_ = 0;
};

}  // namespace sftbench
