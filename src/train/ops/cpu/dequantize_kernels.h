// The table of one instruction set: the last include of each dequantize_ISA.cpp.
#pragma once

#include "ops/cpu/simd.h"
#include "ops/dequantize_tile.h"

namespace sftbench::ops::SFTBENCH_ISA {

SFTBENCH_INLINE U load_words(const uint32_t* p) {
  U v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
SFTBENCH_INLINE void put(T* p, F v) {
  store(p, v);
}

#ifdef SFTBENCH_HAS_BF16_PRODUCTS
// The processor rounds to nearest even, too; it takes subnormals of float32 for 0, which a product
// of a float16 and a whole number never is.
SFTBENCH_INLINE void put(BFloat16* p, F v) {
  const __m256bh rounded = _mm512_cvtneps_pbh((__m512)v);
  __builtin_memcpy(p, &rounded, sizeof rounded);
}
#endif

// Code `j` of those that begin in words[0].
template <int kBits, int kWords>
SFTBENCH_INLINE F extract(const U (&words)[kWords], int j) {
  const int bit = j * kBits, word = bit / 32, shift = bit % 32;
  U code = words[word] >> static_cast<uint32_t>(shift);
  if (shift + kBits > 32) code |= words[word + 1] << static_cast<uint32_t>(32 - shift);
  return __builtin_convertvector((I)(code & ((1u << kBits) - 1u)), F);
}

struct Group {
  F scale, scaled_zero;
};

SFTBENCH_INLINE Group load_group(const DequantizeTile& tile, int32_t group, int64_t column) {
  const int64_t place = group * tile.table_stride + column;
  return {load(tile.scales + place), load(tile.scaled_zeros + place)};
}

// The features whose codes stand in the same words, from `first` on, in any groups.
template <int kBits, class T>
SFTBENCH_INLINE void dequantize_words(const DequantizeTile& tile, int64_t first) {
  constexpr int kWords = kBits == 3 ? 3 : 1, kFeatures = kWords * 32 / kBits;
  const uint32_t* codes = tile.codes + first * kBits / 32 * tile.code_stride;
  T* out = static_cast<T*>(tile.out) + first * tile.out_stride;
  for (int64_t column = 0; column < tile.columns; column += kLanes) {
    U words[kWords];
    for (int w = 0; w < kWords; ++w) words[w] = load_words(codes + w * tile.code_stride + column);
#pragma GCC unroll 1
    for (int j = 0; j < kFeatures; ++j) {
      const Group group = load_group(tile, tile.groups[first + j], column);
      put(out + j * tile.out_stride + column,
          extract<kBits, kWords>(words, j) * group.scale - group.scaled_zero);
    }
  }
}

// The common case, 4 bits and all features of one group, keeps everything in registers.
template <class T>
SFTBENCH_INLINE void dequantize_words_of_group(const DequantizeTile& tile, int64_t first) {
  const uint32_t* codes = tile.codes + first / 8 * tile.code_stride;
  T* out = static_cast<T*>(tile.out) + first * tile.out_stride;
  for (int64_t column = 0; column < tile.columns; column += kLanes) {
    const Group group = load_group(tile, tile.groups[first], column);
    U words[1] = {load_words(codes + column)};
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      put(out + j * tile.out_stride + column,
          extract<4, 1>(words, j) * group.scale - group.scaled_zero);
    }
  }
}

template <int kBits, class T>
void dequantize_tile(const DequantizeTile& tile) {
  constexpr int64_t kStep = kBits == 3 ? 32 : 32 / kBits;
  for (int64_t first = 0; first < kPackedCodes; first += kStep) {
    dequantize_words<kBits, T>(tile, first);
  }
}

template <class T>
void dequantize_tile_of_4_bits(const DequantizeTile& tile) {
  bool one_group = true;
  for (int i = 1; i < kPackedCodes; ++i) one_group &= tile.groups[i] == tile.groups[0];
  for (int64_t first = 0; first < kPackedCodes; first += 8) {
    one_group ? dequantize_words_of_group<T>(tile, first) : dequantize_words<4, T>(tile, first);
  }
}

#define SFTBENCH_LOOPS(T)                                                                         \
  {                                                                                               \
    nullptr, nullptr, dequantize_tile<2, T>, dequantize_tile<3, T>, dequantize_tile_of_4_bits<T>, \
        nullptr, nullptr, nullptr, dequantize_tile<8, T>                                          \
  }

// --- NF4 -----------------------------------------------------------------------------------------

// The values of the kLanes codes that begin at codes[0], the upper half of a byte first.
#if defined(SFTBENCH_HAS_AVX512)
SFTBENCH_INLINE __m128i codes_in_order(const uint8_t* codes) {
  const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  const __m128i nibble = _mm_set1_epi8(15);
  return _mm_unpacklo_epi8(_mm_and_si128(_mm_srli_epi16(pairs, 4), nibble),
                           _mm_and_si128(pairs, nibble));
}
SFTBENCH_INLINE F nf4_values(const uint8_t* codes, const float* table) {
  // GCC 12 takes the forms without a mask for uses of what is not initialized.
  constexpr __mmask16 kAll = 0xffff;
  return (F)_mm512_maskz_permutexvar_ps(
      kAll, _mm512_maskz_cvtepu8_epi32(kAll, codes_in_order(codes)), _mm512_loadu_ps(table));
}
#elif defined(SFTBENCH_HAS_AVX2)
SFTBENCH_INLINE F nf4_values(const uint8_t* codes, const float* table) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  const __m128i pairs = _mm_cvtsi32_si128(four), nibble = _mm_set1_epi8(15);
  const __m256i code = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(
      _mm_and_si128(_mm_srli_epi16(pairs, 4), nibble), _mm_and_si128(pairs, nibble)));
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), code);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), code);
  return (F)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(code, 28)));
}
#else
SFTBENCH_INLINE F nf4_values(const uint8_t* codes, const float* table) {
  return F{table[codes[0] >> 4], table[codes[0] & 15], table[codes[1] >> 4], table[codes[1] & 15]};
}
#endif

template <class T>
void dequantize_nf4(const Nf4Blocks& blocks) {
  constexpr int64_t kBlock = 64;
  const float* table = blocks.values;
  T* out = static_cast<T*>(blocks.out);
  for (int64_t block = 0; block < blocks.count; ++block) {
    const F absmax = splat(blocks.absmax[block]);
    const uint8_t* codes = blocks.codes + block * kBlock / 2;
    for (int64_t i = 0; i < kBlock; i += kLanes)
      put(out + block * kBlock + i, nf4_values(codes + i / 2, table) * absmax);
  }
}

extern const DequantizeKernels kDequantizeKernels;
const DequantizeKernels kDequantizeKernels = {
    {SFTBENCH_LOOPS(float), SFTBENCH_LOOPS(BFloat16), SFTBENCH_LOOPS(Float16)},
    {dequantize_nf4<float>, dequantize_nf4<BFloat16>, dequantize_nf4<Float16>}};

}  // namespace sftbench::ops::SFTBENCH_ISA
