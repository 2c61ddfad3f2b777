#include "sftbench/base/numpy_random.h"

#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// A seed of few bits becomes a state of many.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, 2> words = {static_cast<uint32_t>(seed),
                                           static_cast<uint32_t>(seed >> 32)};
    uint32_t constant = 0x43b0d7e5;
    for (size_t i = 0; i < pool_.size(); ++i) {
      pool_[i] = hashed(i < words.size() ? words[i] : 0, constant);
    }
    for (size_t from = 0; from < pool_.size(); ++from) {
      for (size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mixed(pool_[to], hashed(pool_[from], constant));
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> state = {};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 2 * state.size(); ++i) {
      uint32_t word = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      word *= constant;
      word ^= word >> kShift;
      state[i / 2] |= uint64_t{word} << (i % 2 == 0 ? 0 : 32);
    }
    return state;
  }

 private:
  static constexpr int kShift = 16;

  static uint32_t hashed(uint32_t value, uint32_t& constant) {
    value ^= constant;
    constant *= 0x931e8875;
    value *= constant;
    return value ^ (value >> kShift);
  }

  static uint32_t mixed(uint32_t x, uint32_t y) {
    const uint32_t sum = 0xca01f9dd * x - 0x4973f715 * y;
    return sum ^ (sum >> kShift);
  }

  std::array<uint32_t, 4> pool_ = {};
};

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed).state();
  const auto wide = [](uint64_t high, uint64_t low) { return (uint128{high} << 64) | low; };
  increment_ = (wide(words[2], words[3]) << 1) | 1;
  next64();
  state_ += wide(words[0], words[1]);
  next64();
}

uint64_t NumpyRandom::next64() {
  const uint128 multiplier = (uint128{0x2360ed051fc65da4} << 64) | 0x4385df649fccf645;
  state_ = state_ * multiplier + increment_;
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

uint32_t NumpyRandom::next32() {
  if (std::exchange(has_half_, false)) return half_;
  const uint64_t next = next64();
  has_half_ = true;
  half_ = static_cast<uint32_t>(next >> 32);
  return static_cast<uint32_t>(next);
}

double NumpyRandom::uniform() {
  return static_cast<double>(next64() >> 11) * 0x1p-53;
}

// Draws again until as many bits as `most` has are no more than it.
uint32_t NumpyRandom::up_to(uint32_t most) {
  if (most == 0) return 0;
  const uint32_t mask = UINT32_MAX >> std::countl_zero(most);
  uint32_t drawn = next32() & mask;
  while (drawn > most) drawn = next32() & mask;
  return drawn;
}

std::vector<int64_t> NumpyRandom::permutation(int64_t n) {
  check(n >= 0 && n < (int64_t{1} << 32), "numpy draws wider numbers from 2^32 on");
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (size_t i = numbers.size(); i-- > 1;) {
    std::swap(numbers[i], numbers[up_to(static_cast<uint32_t>(i))]);
  }
  return numbers;
}

}  // namespace sftbench
