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

extern const DequantizeKernels kDequantizeKernels;
const DequantizeKernels kDequantizeKernels = {
    {SFTBENCH_LOOPS(float), SFTBENCH_LOOPS(BFloat16), SFTBENCH_LOOPS(Float16)}};

}  // namespace sftbench::ops::SFTBENCH_ISA
