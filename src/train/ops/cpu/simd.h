// A register of floats at a time, in the vector extension of GCC and clang: each instruction set's
// file compiles the same text into its own registers. Vectors are no wider than those: compilers
// take selections and conversions of wider ones apart, element by element. Included by
// kernels_*.cpp and their like only, after their target pragma; everything stands in a namespace
// per instruction set, and no function from outside is called, so no code for a processor that is
// not there can leak into the rest of the program.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define SFTBENCH_INLINE inline __attribute__((always_inline))

// By macros of our own: the C++ compiler reads a file before it obeys the target pragma in it, so
// the compiler's own macros do not change.
#if defined(SFTBENCH_HAS_AVX512)
#define SFTBENCH_LANES 16
#elif defined(SFTBENCH_HAS_AVX2)
#define SFTBENCH_LANES 8
#else
#define SFTBENCH_LANES 4
#endif

namespace sftbench::ops::SFTBENCH_ISA {

constexpr int64_t kLanes = SFTBENCH_LANES;

using F = float __attribute__((vector_size(4 * SFTBENCH_LANES)));
using I = int32_t __attribute__((vector_size(4 * SFTBENCH_LANES)));
using U = uint32_t __attribute__((vector_size(4 * SFTBENCH_LANES)));
using H = uint16_t __attribute__((vector_size(2 * SFTBENCH_LANES)));

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// Subtracting 0 changes no value, so the compiler leaves it out. Adding 0 would turn -0 into 0.
SFTBENCH_INLINE F splat(float value) {
  return value - F{};
}

SFTBENCH_INLINE F load(const float* p) {
  F v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

SFTBENCH_INLINE void store(float* p, F v) {
  __builtin_memcpy(p, &v, sizeof v);
}

SFTBENCH_INLINE U widen(const uint16_t* p) {
  H h;
  __builtin_memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, U);
}

SFTBENCH_INLINE void narrow(uint16_t* p, U v) {
  const H h = __builtin_convertvector(v, H);
  __builtin_memcpy(p, &h, sizeof h);
}

SFTBENCH_INLINE F load(const BFloat16* p) {
  return (F)(widen(&p->bits) << 16);
}

// Rounded to bfloat16, to nearest even, in the upper half of each lane.
SFTBENCH_INLINE U round_to_bfloat16(F v) {
  const U bits = (U)v;
  const U rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return v == v ? rounded : (U{} + 0x7fc00000u);
}

SFTBENCH_INLINE void store(BFloat16* p, F v) {
  narrow(&p->bits, round_to_bfloat16(v) >> 16);
}

SFTBENCH_INLINE F load(const Float16* p) {
  const U h = widen(&p->bits);
  const U magnitude = (h & 0x7fffu) << 13;
  // The multiplication moves the exponent's bias and makes subnormals normal.
  const U finite = (U)((F)magnitude * 0x1p112f);
  const U value = (I)magnitude >= 0x0f800000 ? (magnitude | 0x7f800000u) : finite;
  return (F)(value | ((h & 0x8000u) << 16));
}

SFTBENCH_INLINE void store(Float16* p, F v) {
  const U bits = (U)v;
  const U sign = (bits >> 16) & 0x8000u;
  const U magnitude = bits & 0x7fffffffu;
  const U normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  // Adding 0.5 lets the hardware round a subnormal at its last place.
  const U subnormal = (U)((F)magnitude + 0.5f) - 0x3f000000u;
  U h = (I)magnitude < 0x38800000 ? subnormal : normal;
  h = (I)magnitude >= 0x477ff000 ? (U{} + 0x7c00u) : h;  // 65520 and more rounds to infinity
  h = v == v ? h : (U{} + 0x7e00u);
  narrow(&p->bits, h | sign);
}

// All lanes, or the first `n` of them: loops end with one partial vector.
struct All {
  SFTBENCH_INLINE operator int64_t() const { return kLanes; }
};

template <class T>
SFTBENCH_INLINE F load(const T* p, All) {
  return load(p);
}
template <class T>
SFTBENCH_INLINE F load(const T* p, int64_t n) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return load(lanes);
}
template <class T>
SFTBENCH_INLINE void store(T* p, F v, All) {
  store(p, v);
}
template <class T>
SFTBENCH_INLINE void store(T* p, F v, int64_t n) {
  T lanes[kLanes];
  store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

// body(i, lanes) for each vector of [0, n).
template <class Body>
SFTBENCH_INLINE void sweep(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, All{});
  if (i < n) body(i, n - i);
}

SFTBENCH_INLINE F maximum(F a, F b) {
  return a > b ? a : b;
}

template <class Combine>
SFTBENCH_INLINE float reduce(F v, Combine&& combine) {
#if SFTBENCH_LANES == 16
  v = combine(v,
              __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = combine(v,
              __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = combine(v,
              __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = combine(v,
              __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif SFTBENCH_LANES == 8
  v = combine(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = combine(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  v = combine(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#else
  v = combine(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
  v = combine(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#endif
  return v[0];
}

SFTBENCH_INLINE float sum(F v) {
  return reduce(
      v, [](F a, F b) __attribute__((always_inline)) { return a + b; });
}
SFTBENCH_INLINE float maximum(F v) {
  return reduce(
      v, [](F a, F b) __attribute__((always_inline)) { return maximum(a, b); });
}

#ifdef SFTBENCH_HAS_AVX512
// Masked forms with all lanes on: the plain ones read an uninitialized register in GCC 12's headers
// (GCC bug 105593).
constexpr __mmask16 kAllLanes = 0xffff;

// Where one operand is NaN, the instructions return the second.
SFTBENCH_INLINE F maximum_or_nan(F bound, F v) {
  return (F)_mm512_maskz_max_ps(kAllLanes, (__m512)bound, (__m512)v);
}
SFTBENCH_INLINE F minimum_or_nan(F bound, F v) {
  return (F)_mm512_maskz_min_ps(kAllLanes, (__m512)bound, (__m512)v);
}
#endif

// e^r for |r| <= ln(2)/2.
SFTBENCH_INLINE F exponential_near_zero(F r) {
  F p = splat(1.0f / 720);
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}

// x - n ln(2), with ln(2) in two parts.
SFTBENCH_INLINE F without_powers_of_two(F x, F n) {
  const F r = x - n * 0.693145752f;
  return r - n * 1.42860677e-6f;
}

// e^x to about 2 ulp; 0 where it would be subnormal, infinity above 88.73, NaN for NaN.
SFTBENCH_INLINE F exponential(F x) {
  const F low = splat(-87.33654f);
#ifdef SFTBENCH_HAS_AVX512
  // The scaling takes care of what is too large. For a subnormal it would take 25 times as long.
  const F bounded = maximum_or_nan(low, minimum_or_nan(splat(89.0f), x));
  const F n = (F)_mm512_maskz_roundscale_ps(kAllLanes, (__m512)(bounded * 1.44269504f),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const F p = exponential_near_zero(without_powers_of_two(bounded, n));
  const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, (__m512)low, _CMP_NLT_UQ);
  return (F)_mm512_maskz_scalef_ps(normal, (__m512)p, (__m512)n);
#else
  const F high = splat(88.72283f);
  F clamped = x < low ? low : x;
  clamped = clamped > high ? high : clamped;
  const F magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F shifted = clamped * 1.44269504f + magic;
  const F p = exponential_near_zero(without_powers_of_two(clamped, shifted - magic));
  // 2^n in two factors: n may be 128.
  const I exponent = (I)shifted - 0x4b400000;
  const I half = exponent >> 1;
  F y = p * (F)((half + 127) << 23) * (F)((exponent - half + 127) << 23);
  y = x < low ? splat(0.0f) : y;
  return x > high ? splat(__builtin_inff()) : y;
#endif
}

// To about 2e-7; NaN for NaN.
SFTBENCH_INLINE F hyperbolic_tangent(F x) {
  const F by_exponential = 1.0f - 2.0f / (1.0f + exponential(x + x));
  // Near 0, where the two terms cancel, its series.
  const F square = x * x;
  F p = splat(62.0f / 2835);
  p = p * square - 17.0f / 315;
  p = p * square + 2.0f / 15;
  p = p * square - 1.0f / 3;
  const F series = x + x * square * p;
  return square < 0.09f ? series : by_exponential;
}

SFTBENCH_INLINE F square_root(F v) {
#ifdef SFTBENCH_HAS_AVX512
  return (F)_mm512_maskz_sqrt_ps(kAllLanes, (__m512)v);
#else
  // Four at a time on any x86-64; the vector extension has no square root of its own.
  for (int i = 0; i < kLanes; i += 4) {
    const __m128 root = _mm_sqrt_ps(_mm_loadu_ps(reinterpret_cast<const float*>(&v) + i));
    _mm_storeu_ps(reinterpret_cast<float*>(&v) + i, root);
  }
  return v;
#endif
}

}  // namespace sftbench::ops::SFTBENCH_ISA
