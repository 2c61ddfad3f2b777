// Products of tiles of 64 rows, and how their operands are packed: what attention is made of. They
// run on 32-bit units: a float each, or, where the processor multiplies bfloat16, a pair of
// neighbors along the contraction. Both kinds share every line but `multiply_add` and the packing.
// See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd.h"
#ifdef SFTBENCH_HAS_TILES
#include "ops/cpu/amx_products.h"
#endif

namespace sftbench::ops::SFTBENCH_ISA {

constexpr int64_t kTile = AttentionProblem::kTile;

SFTBENCH_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
SFTBENCH_INLINE int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
SFTBENCH_INLINE int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

// One float a unit.
struct FloatUnits {
  static constexpr int64_t kPer = 1;  // elements in a unit
  static constexpr bool kTiles = false;
  struct Session {};  // of a kernel's products
  static SFTBENCH_INLINE F multiply_add(F sum, uint32_t a, F b) {
    float factor;
    __builtin_memcpy(&factor, &a, sizeof factor);
    return sum + factor * b;
  }
};

#ifdef SFTBENCH_HAS_BF16_PRODUCTS
// Two bfloat16 a unit, multiplied and added in float32. The processor's rounding, to nearest even,
// takes subnormals for 0, as its products do.
struct PairUnits {
  static constexpr int64_t kPer = 2;
  static constexpr bool kTiles = false;
  struct Session {};
  static SFTBENCH_INLINE F multiply_add(F sum, uint32_t a, F b) {
    return (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(static_cast<int>(a)),
                               (__m512bh)b);
  }
  static SFTBENCH_INLINE void put(uint32_t* out, F v) {
    const __m256bh rounded = _mm512_cvtneps_pbh((__m512)v);
    __builtin_memcpy(out, &rounded, sizeof rounded);
  }
  // Lane by lane a pair, `first` in its lower half.
  static SFTBENCH_INLINE void put_pairs(uint32_t* out, F first, F second) {
    using Words = uint16_t __attribute__((vector_size(64)));
    const Words rounded = (Words)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    const Words pairs = __builtin_shufflevector(rounded, rounded, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                                5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27,
                                                12, 28, 13, 29, 14, 30, 15, 31);
    __builtin_memcpy(out, &pairs, sizeof pairs);
  }
};
#endif

#ifdef SFTBENCH_HAS_TILES
// Pairs whose products are those of whole tiles.
struct TileUnits : PairUnits {
  static constexpr bool kTiles = true;
  using Session = TileShapes;
};
#endif

// Rows of a result that are formed together.
constexpr int64_t kBlockRows = SFTBENCH_BLOCK_ROWS;

// Element (i, k) of a left operand is data[i * row + k * unit]: the transposed product needs no
// copy.
struct LeftOperand {
  const uint32_t* data;
  int64_t row, unit;
};

// kRows x kVectors registers of the result, held in registers while all units pass by.
template <class Units, int kRows, int kVectors>
SFTBENCH_INLINE void multiply_block(LeftOperand a, const uint32_t* b, int64_t b_stride,
                                    int64_t units, float* c, int64_t c_stride, bool accumulate) {
  F sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] = accumulate ? load(c + i * c_stride + j * kLanes) : splat(0);
    }
  }
  for (int64_t k = 0; k < units; ++k) {
    F right[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      right[j] = load(reinterpret_cast<const float*>(b + k * b_stride) + j * kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const uint32_t left = a.data[i * a.row + k * a.unit];
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        sums[i][j] = Units::multiply_add(sums[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) store(c + i * c_stride + j * kLanes, sums[i][j]);
  }
}

// What of a product is needed. On the diagonal, where queries and keys are the same positions, no
// query sees a key behind it: a row of scores ends with its own position, a sum over keys too, and
// a sum over queries begins there.
enum class Need { kAll, kColumnsToRow, kUnitsToRow, kUnitsFromRow };

// Columns [j, end), kVectors registers at a time as long as there are so many.
template <class Units, int kRows, int kVectors>
SFTBENCH_INLINE void multiply_columns(LeftOperand a, const uint32_t* b, int64_t columns,
                                      int64_t units, float* c, bool accumulate, int64_t j,
                                      int64_t end) {
  constexpr int64_t kWidth = kVectors * kLanes;
  for (; j + kWidth <= end; j += kWidth) {
    multiply_block<Units, kRows, kVectors>(a, b + j, columns, units, c + j, columns, accumulate);
  }
  if constexpr (kVectors > 1) {
    multiply_columns<Units, kRows, kVectors - 1>(a, b, columns, units, c, accumulate, j, end);
  }
}

#ifdef SFTBENCH_HAS_TILES
// Columns [0, end) of kDown tiles of rows; vectors multiply the units beyond the last whole tile.
template <int kDown>
SFTBENCH_INLINE void multiply_columns_of_tiles(LeftOperand a, const uint32_t* b, int64_t columns,
                                               int64_t units, float* c, bool accumulate,
                                               int64_t end) {
  const int64_t tiles = units / kTileUnits, whole = tiles * kTileUnits;
  const Tiles left{a.data, a.row, kTileUnits * a.row, kTileUnits};
  for (int64_t j = 0; j < end; j += 2 * kTileUnits) {
    const Tiles right{b + j, columns, kTileUnits, kTileUnits * columns};
    (j + 2 * kTileUnits <= end
         ? multiply_tiles<kDown, 2>
         : multiply_tiles<kDown, 1>)(left, right, tiles, c + j, columns, accumulate);
  }
  if (whole == units) return;
  for (int64_t row = 0; row < kDown * kTileUnits; row += 4) {
    multiply_columns<PairUnits, 4, 4>({a.data + row * a.row + whole, a.row, 1}, b + whole * columns,
                                      columns, units - whole, c + row * columns, true, 0, end);
  }
}
#endif

// c [rows, columns] (+)= a [rows, positions or the head in units] b [units, columns]; columns is a
// multiple of kLanes, rows one of kBlockRows.
template <class Units, Need kNeed>
void multiply(LeftOperand a, const uint32_t* b, int64_t rows, int64_t columns, int64_t units,
              float* c, bool accumulate) {
  static_assert(kBlockRows % Units::kPer == 0);
  for (int64_t i = 0; i < rows; i += kBlockRows) {
    const int64_t first = kNeed == Need::kUnitsFromRow ? i / Units::kPer : 0;
    const int64_t last = kNeed == Need::kUnitsToRow ? (i + kBlockRows) / Units::kPer : units;
    const int64_t end = kNeed == Need::kColumnsToRow ? round_up(i + kBlockRows, kLanes) : columns;
    const LeftOperand left{a.data + i * a.row + first * a.unit, a.row, a.unit};
    const uint32_t* right = b + first * columns;
#ifdef SFTBENCH_HAS_TILES
    multiply_columns_of_tiles<2>(left, right, columns, last - first, c + i * columns, accumulate,
                                 end);
#else
    multiply_columns<Units, SFTBENCH_BLOCK_ROWS, SFTBENCH_BLOCK_VECTORS>(
        left, right, columns, last - first, c + i * columns, accumulate, 0, end);
#endif
  }
}

// sums += left^T right over `rows` queries, for `keys` keys: the gradients of keys and values. On
// the diagonal no query sees a key behind it. left: [units of queries, kTile keys]. right: [units
// of queries, D]. sums: [kTile keys, D]. Tiles cannot read a transposed left operand, so they form
// the transposed sums, [D, kTile keys], of the transposed right one, [D, kTile in units].
template <class Units>
void add_over_queries(const uint32_t* left, const uint32_t* right, bool diagonal, int64_t keys,
                      int64_t rows, int64_t dim, float* sums) {
  const int64_t units = rows / Units::kPer;
#ifdef SFTBENCH_HAS_TILES
  constexpr int64_t kUnits = kTile / Units::kPer;
  for (int64_t key = 0; key < keys; key += kBlockRows) {
    const int64_t first = diagonal ? key / Units::kPer : 0;
    const uint32_t* pairs = left + first * kTile + key;
    for (int64_t i = 0; i < dim; i += kBlockRows) {
      const LeftOperand transposed{right + i * kUnits + first, kUnits, 1};
      (i + kBlockRows <= dim ? multiply_columns_of_tiles<2>
                             : multiply_columns_of_tiles<1>)(transposed, pairs, kTile,
                                                             units - first, sums + i * kTile + key,
                                                             true, kBlockRows);
    }
  }
#else
  (diagonal ? multiply<Units, Need::kUnitsFromRow>
            : multiply<Units, Need::kAll>)({left, 1, kTile}, right, keys, dim, units, sums, true);
#endif
}

// --- packing -------------------------------------------------------------------------------------

// A tile of a [.., S, heads, D] tensor: rows of one head, `count` of them inside the sequence.
template <class T>
struct Rows {
  const T* data;
  int64_t stride, count, dim, padded_dim;

  SFTBENCH_INLINE F at(int64_t row, int64_t i) const {
    if (row >= count || i >= dim) return splat(0);
    const T* p = data + row * stride + i;
    return i + kLanes <= dim ? load(p) : load(p, dim - i);
  }
};

template <class Units>
SFTBENCH_INLINE void put_units(uint32_t* out, F v) {
  if constexpr (Units::kPer == 1) {
    store(reinterpret_cast<float*>(out), v);
  } else {
    Units::put(out, v);
  }
}

// Two rows of values as one row of pairs (first in the lower half), or as two rows of floats.
template <class Units>
SFTBENCH_INLINE void put_two_rows(uint32_t* out, int64_t stride, F first, F second) {
  if constexpr (Units::kPer == 1) {
    store(reinterpret_cast<float*>(out), first);
    store(reinterpret_cast<float*>(out + stride), second);
  } else {
    Units::put_pairs(out, first, second);
  }
}

// [rows, units of D]: the left operand of products over the head.
template <class Units, class T>
void pack_rows(const Rows<T>& x, int64_t rows, uint32_t* out) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < x.padded_dim; i += kLanes) {
      put_units<Units>(out + (row * x.padded_dim + i) / Units::kPer, x.at(row, i));
    }
  }
}

// [units of rows, D]: the right operand of products over positions.
template <class Units, class T>
void pack_natural(const Rows<T>& x, int64_t rows, uint32_t* out) {
  for (int64_t row = 0; row < rows; row += 2) {
    for (int64_t i = 0; i < x.padded_dim; i += kLanes) {
      put_two_rows<Units>(out + row / Units::kPer * x.padded_dim + i, x.padded_dim, x.at(row, i),
                          x.at(row + 1, i));
    }
  }
}

// [units of D, kTile]: the right operand of products over the head.
template <class Units, class T>
void pack_transposed(const Rows<T>& x, uint32_t* out) {
  uint32_t units[kLanes];
  for (int64_t row = 0; row < kTile; ++row) {
    for (int64_t i = 0; i < x.padded_dim; i += kLanes) {
      put_units<Units>(units, x.at(row, i));
      for (int64_t u = 0; u < kLanes / Units::kPer; ++u)
        out[(i / Units::kPer + u) * kTile + row] = units[u];
    }
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
