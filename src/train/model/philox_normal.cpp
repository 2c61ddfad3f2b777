// Written for the vectoriser: every loop runs over kLanes independent lanes held in arrays, without
// branches. Compiled without contraction to fused multiply-add, so that all instruction sets give
// the same bits.
#include "model/philox_normal.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "sftbench/base/error.h"

#define SFTBENCH_INLINE __attribute__((always_inline)) inline

namespace sftbench {
namespace {

constexpr int kLanes = kNormalBlock / 4;  // one Philox block per lane

using Words = std::array<std::array<uint32_t, kLanes>, 4>;

SFTBENCH_INLINE void philox_round(uint32_t (&c)[4], uint32_t k0, uint32_t k1) {
  const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
  const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
  const auto high0 = static_cast<uint32_t>(p0 >> 32), low0 = static_cast<uint32_t>(p0);
  const auto high1 = static_cast<uint32_t>(p1 >> 32), low1 = static_cast<uint32_t>(p1);
  c[0] = high1 ^ c[1] ^ k0;
  c[1] = low1;
  c[2] = high0 ^ c[3] ^ k1;
  c[3] = low0;
}

SFTBENCH_INLINE void philox_rounds(uint32_t (&c)[4], uint32_t k0, uint32_t k1) {
#pragma GCC unroll 10
  for (uint32_t round = 0; round < 10; ++round) {
    philox_round(c, k0 + round * 0x9E3779B9u, k1 + round * 0xBB67AE85u);
  }
}

// ln(u) for u in (0, 1]: mantissa in [sqrt(1/2), sqrt(2)) by a polynomial (Cephes logf), exponent
// times ln 2.
SFTBENCH_INLINE float log_unit(float u) {
  constexpr int32_t kSqrtHalfBits = 0x3F3504F3;
  const int32_t shifted = std::bit_cast<int32_t>(u) - kSqrtHalfBits;
  const auto exponent = static_cast<float>(shifted >> 23);
  const float x = std::bit_cast<float>((shifted & 0x007FFFFF) + kSqrtHalfBits) - 1.0f;
  float y = 7.0376836292e-2f;
  y = y * x - 1.1514610310e-1f;
  y = y * x + 1.1676998740e-1f;
  y = y * x - 1.2420140846e-1f;
  y = y * x + 1.4249322787e-1f;
  y = y * x - 1.6668057665e-1f;
  y = y * x + 2.0000714765e-1f;
  y = y * x - 2.4999993993e-1f;
  y = y * x + 3.3333331174e-1f;
  const float square = x * x;
  return (y * x * square - 0.5f * square) + x + exponent * std::numbers::ln2_v<float>;
}

// sin and cos of pi * t for t in [-1, 1): the nearest quarter turn, and polynomials (Cephes sinf,
// cosf) for the rest.
SFTBENCH_INLINE void sincos_pi(float t, float& sine, float& cosine) {
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = 2.0f * t + kRound;
  const int32_t quarter = std::bit_cast<int32_t>(shifted);
  const float angle = (2.0f * t - (shifted - kRound)) * (0.5f * std::numbers::pi_v<float>);
  const float z = angle * angle;
  const float s =
      ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * angle + angle;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
      0.5f * z + 1.0f;
  const int32_t swap = -(quarter & 1);
  const int32_t s_bits = std::bit_cast<int32_t>(s), c_bits = std::bit_cast<int32_t>(c);
  const int32_t sine_bits = (c_bits & swap) | (s_bits & ~swap);
  const int32_t cosine_bits = (s_bits & swap) | (c_bits & ~swap);
  sine = std::bit_cast<float>(sine_bits ^ ((quarter & 2) << 30));
  cosine = std::bit_cast<float>(cosine_bits ^ (((quarter + 1) & 2) << 30));
}

// Two uniform words -> two normals. 31 bits reach 6.6 standard deviations.
SFTBENCH_INLINE void box_muller(uint32_t radius_word, uint32_t angle_word, float& first,
                                float& second) {
  constexpr float kScale = 0x1p-31f;
  const float u = (static_cast<float>(static_cast<int32_t>(radius_word >> 1)) + 0.5f) * kScale;
  const float square = -2.0f * log_unit(u);
  const float radius = std::sqrt(square > 0.0f ? square : 0.0f);
  float sine, cosine;
  sincos_pi(static_cast<float>(static_cast<int32_t>(angle_word)) * kScale, sine, cosine);
  first = radius * cosine;
  second = radius * sine;
}

SFTBENCH_INLINE void fill_blocks(uint64_t key, uint64_t first, float* out, int64_t count) {
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  Words words;
  for (int64_t offset = 0; offset < count; offset += kNormalBlock) {
    const uint64_t counter = (first + static_cast<uint64_t>(offset)) / 4;
    const auto counter_low = static_cast<uint32_t>(counter),
               counter_high = static_cast<uint32_t>(counter >> 32);
    // A block starts at a multiple of kLanes: the low word does not carry within it.
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      uint32_t c[4] = {counter_low + lane, counter_high, 0, 0};
      philox_rounds(c, k0, k1);
      for (int i = 0; i < 4; ++i) words[i][lane] = c[i];
    }
    float* block = out + offset;
    for (int lane = 0; lane < kLanes; ++lane) {
      box_muller(words[0][lane], words[1][lane], block[lane], block[kLanes + lane]);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      box_muller(words[2][lane], words[3][lane], block[2 * kLanes + lane],
                 block[3 * kLanes + lane]);
    }
  }
}

using FillFunction = void (*)(uint64_t, uint64_t, float*, int64_t);

void fill_portable(uint64_t key, uint64_t first, float* out, int64_t count) {
  fill_blocks(key, first, out, count);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fill_avx2(uint64_t key, uint64_t first, float* out,
                                               int64_t count) {
  fill_blocks(key, first, out, count);
}

#ifdef __clang__  // which has no such preference in an attribute
#define SFTBENCH_WHOLE_WIDTH ""
#else
#define SFTBENCH_WHOLE_WIDTH ",prefer-vector-width=512"
#endif
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl" SFTBENCH_WHOLE_WIDTH))) void fill_avx512(
    uint64_t key, uint64_t first, float* out, int64_t count) {
  fill_blocks(key, first, out, count);
}
#endif

FillFunction best_fill() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return fill_avx512;
  if (__builtin_cpu_supports("avx2")) return fill_avx2;
#endif
  return fill_portable;
}

}  // namespace

void fill_standard_normal(uint64_t key, uint64_t first, float* out, int64_t count) {
  check(first % kNormalBlock == 0 && count % kNormalBlock == 0, "whole blocks of normal numbers");
  static const FillFunction kFill = best_fill();
  kFill(key, first, out, count);
}

std::array<uint32_t, 4> philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key) {
  uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(c, key[0], key[1]);
  return {c[0], c[1], c[2], c[3]};
}

}  // namespace sftbench
