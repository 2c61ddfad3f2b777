// As many registers as one has lanes become their columns. See simd.h for how this file is
// compiled.
#pragma once

#include "ops/cpu/simd.h"

namespace sftbench::ops::SFTBENCH_ISA {

#if SFTBENCH_LANES == 4
#define SFTBENCH_LOW 0, 4, 1, 5
#define SFTBENCH_HIGH 2, 6, 3, 7
#define SFTBENCH_LOW_PAIRS 0, 1, 4, 5
#define SFTBENCH_HIGH_PAIRS 2, 3, 6, 7
#elif SFTBENCH_LANES == 8
#define SFTBENCH_LOW 0, 8, 1, 9, 4, 12, 5, 13
#define SFTBENCH_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define SFTBENCH_LOW_PAIRS 0, 1, 8, 9, 4, 5, 12, 13
#define SFTBENCH_HIGH_PAIRS 2, 3, 10, 11, 6, 7, 14, 15
#else
#define SFTBENCH_LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define SFTBENCH_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define SFTBENCH_LOW_PAIRS 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define SFTBENCH_HIGH_PAIRS 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#endif

// Four rows become their columns, within each 128 bits: what every instruction set can do in one
// instruction a step.
SFTBENCH_INLINE void transpose_quads(F* rows) {
  const F a = __builtin_shufflevector(rows[0], rows[1], SFTBENCH_LOW);
  const F b = __builtin_shufflevector(rows[0], rows[1], SFTBENCH_HIGH);
  const F c = __builtin_shufflevector(rows[2], rows[3], SFTBENCH_LOW);
  const F d = __builtin_shufflevector(rows[2], rows[3], SFTBENCH_HIGH);
  rows[0] = __builtin_shufflevector(a, c, SFTBENCH_LOW_PAIRS);
  rows[1] = __builtin_shufflevector(a, c, SFTBENCH_HIGH_PAIRS);
  rows[2] = __builtin_shufflevector(b, d, SFTBENCH_LOW_PAIRS);
  rows[3] = __builtin_shufflevector(b, d, SFTBENCH_HIGH_PAIRS);
}

// v[i][j] becomes v[j][i].
SFTBENCH_INLINE void transpose(F (&v)[SFTBENCH_LANES]) {
  for (int i = 0; i < SFTBENCH_LANES; i += 4) transpose_quads(v + i);
#if SFTBENCH_LANES == 8
  for (int i = 0; i < 4; ++i) {
    const F top = v[i], bottom = v[i + 4];
    v[i] = __builtin_shufflevector(top, bottom, 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(top, bottom, 4, 5, 6, 7, 12, 13, 14, 15);
  }
#elif SFTBENCH_LANES == 16
  for (int i = 0; i < 4; ++i) {
    const auto even = [](F a, F b) __attribute__((always_inline)) {
      return __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26,
                                     27);
    };
    const auto odd = [](F a, F b) __attribute__((always_inline)) {
      return __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30,
                                     31);
    };
    const auto low = [](F a, F b) __attribute__((always_inline)) {
      return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    };
    const auto high = [](F a, F b) __attribute__((always_inline)) {
      return __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                     31);
    };
    const F top_even = even(v[i], v[i + 4]), top_odd = odd(v[i], v[i + 4]);
    const F bottom_even = even(v[i + 8], v[i + 12]), bottom_odd = odd(v[i + 8], v[i + 12]);
    v[i] = low(top_even, bottom_even);
    v[i + 4] = low(top_odd, bottom_odd);
    v[i + 8] = high(top_even, bottom_even);
    v[i + 12] = high(top_odd, bottom_odd);
  }
#endif
}

// to [columns, rows] = from [rows, columns]: 32-bit elements, multiples of kLanes of both. Strides
// are between rows.
SFTBENCH_INLINE void transpose_matrix(const float* from, int64_t from_stride, int64_t rows,
                                      int64_t columns, float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      F block[SFTBENCH_LANES];
      for (int64_t i = 0; i < kLanes; ++i) block[i] = load(from + (row + i) * from_stride + column);
      transpose(block);
      for (int64_t i = 0; i < kLanes; ++i) store(to + (column + i) * to_stride + row, block[i]);
    }
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
