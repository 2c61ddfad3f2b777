// Matrix products in float32 of operands of any dtype (Goto and van de Geijn 2008). Operands are
// widened while they are packed: a panel is a few rows of the left operand, or columns of the right
// one, position by position along the contraction. A tile of the result stays in registers while
// two panels pass by. See simd.h for how this file is compiled, and cpu/gemm.cpp for the blocking.
#pragma once

#include "ops/cpu/kernels.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/transpose.h"

namespace sftbench::ops::SFTBENCH_ISA {

// The tile in registers: kTileRows x kTileVectors sums, one position of the right panel, and one
// element of the left one. AVX-512 has 32 registers, the others have 16.
#if SFTBENCH_LANES == 16
constexpr int kTileRows = 8, kTileVectors = 3;
#elif SFTBENCH_LANES == 8
constexpr int kTileRows = 4, kTileVectors = 3;
#else
constexpr int kTileRows = 6, kTileVectors = 2;
#endif
constexpr int kTileColumns = kTileVectors * SFTBENCH_LANES;

// --- packing -------------------------------------------------------------------------------------

// A position of a panel takes so many registers; the last of them may reach into the next position,
// which is written later.
template <int kWidth>
constexpr int kRegisters = (kWidth + SFTBENCH_LANES - 1) / SFTBENCH_LANES;

// Stores a register of position k; `last` of the panel's positions may not reach beyond them.
template <int kWidth>
SFTBENCH_INLINE void store_in_panel(float* panel, int64_t k, int64_t i, F v, bool last) {
  float* out = panel + k * kWidth + i;
  if (last && i + kLanes > kWidth) {
    store(out, v, kWidth - i);
  } else {
    store(out, v);
  }
}

// kLanes positions of the vectors [first, first + kLanes).
template <class T>
SFTBENCH_INLINE void load_transposed(const GemmPanel& from, int64_t k, int64_t first,
                                     F (&v)[SFTBENCH_LANES]) {
  const T* data = static_cast<const T*>(from.data) + first * from.vector_stride + k;
  for (int64_t i = 0; i < kLanes; ++i) {
    v[i] = first + i < from.count ? load(data + i * from.vector_stride) : splat(0);
  }
  transpose(v);
}

// Vectors that lie along the contraction: read by vector, transposed in registers. Returns the
// first position that is left.
template <int kWidth, class T>
SFTBENCH_INLINE int64_t pack_along(const GemmPanel& from, float* panel) {
  int64_t k = 0;
  for (; k + kLanes <= from.depth; k += kLanes) {
    const bool ends = k + kLanes == from.depth;
    if constexpr (kWidth % kLanes == 0) {
      for (int64_t first = 0; first < kWidth; first += kLanes) {
        F v[SFTBENCH_LANES];
        load_transposed<T>(from, k, first, v);
        for (int64_t i = 0; i < kLanes; ++i) store(panel + (k + i) * kWidth + first, v[i]);
      }
    } else {
      F v[kRegisters<kWidth>][SFTBENCH_LANES];
      for (int r = 0; r < kRegisters<kWidth>; ++r) load_transposed<T>(from, k, r * kLanes, v[r]);
      for (int64_t i = 0; i < kLanes; ++i) {
        for (int r = 0; r < kRegisters<kWidth>; ++r) {
          store_in_panel<kWidth>(panel, k + i, r * kLanes, v[r][i], ends && i == kLanes - 1);
        }
      }
    }
  }
  return k;
}

// Vectors that lie beside one another: a position of all of them is read at once. A register that
// reaches beyond them reads from the next position.
template <int kWidth, class T>
SFTBENCH_INLINE void pack_across(const GemmPanel& from, float* panel) {
  static_assert(kRegisters<kWidth> * kLanes <= 2 * kWidth);
  const T* position = static_cast<const T*>(from.data);
  int64_t k = 0;
  if (from.count == kWidth) {
    for (; k + 1 < from.depth; ++k, position += from.depth_stride) {
      for (int r = 0; r < kRegisters<kWidth>; ++r) {
        store(panel + k * kWidth + r * kLanes, load(position + r * kLanes));
      }
    }
  }
  for (; k < from.depth; ++k, position += from.depth_stride) {
    float* out = panel + k * kWidth;
    sweep(
        from.count, [&](int64_t i, auto n) __attribute__((always_inline)) {
          store(out + i, load(position + i, n), n);
        });
    for (int64_t i = from.count; i < kWidth; ++i) out[i] = 0.0f;
  }
}

// panel[k * kWidth + i] = element k of vector i, or 0 beyond the vectors that there are.
// REQUIRES: one of the strides is 1.
template <int kWidth, class T>
void gemm_pack(const GemmPanel& from, float* panel) {
  const T* data = static_cast<const T*>(from.data);
  if (from.vector_stride == 1) return pack_across<kWidth, T>(from, panel);
  for (int64_t k = pack_along<kWidth, T>(from, panel); k < from.depth; ++k) {
    for (int64_t i = 0; i < kWidth; ++i) {
      panel[k * kWidth + i] = i < from.count ? load(data + i * from.vector_stride + k, 1)[0] : 0.0f;
    }
  }
}

// --- the product ---------------------------------------------------------------------------------

// c [kTileRows, kTileColumns] (+)= the product of two panels.
SFTBENCH_INLINE void multiply_panels(const float* left, const float* right, int64_t depth, float* c,
                                     int64_t c_stride, bool accumulate) {
  F sums[kTileRows][kTileVectors] = {};
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k) {
    F b[kTileVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kTileVectors; ++j) b[j] = load(right + k * kTileColumns + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) {
      const F a = splat(left[k * kTileRows + i]);
#pragma GCC unroll 16
      for (int j = 0; j < kTileVectors; ++j) sums[i][j] += a * b[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kTileVectors; ++j) {
      float* out = c + i * c_stride + j * kLanes;
      store(out, accumulate ? load(out) + sums[i][j] : sums[i][j]);
    }
  }
}

// The right panel stays in the first-level cache while the left ones pass by.
inline void gemm_multiply(const GemmBlock& block) {
  for (int64_t j = 0; j < block.columns; j += kTileColumns) {
    const float* right = block.right + j * block.depth;
    const int64_t columns = block.columns - j < kTileColumns ? block.columns - j : kTileColumns;
    for (int64_t i = 0; i < block.rows; i += kTileRows) {
      const float* left = block.left + i * block.depth;
      float* c = block.c + i * block.c_stride + j;
      const int64_t rows = block.rows - i < kTileRows ? block.rows - i : kTileRows;
      if (rows == kTileRows && columns == kTileColumns) {
        multiply_panels(left, right, block.depth, c, block.c_stride, block.accumulate);
        continue;
      }
      float tile[kTileRows * kTileColumns];
      multiply_panels(left, right, block.depth, tile, kTileColumns, false);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          float& out = c[row * block.c_stride + column];
          out = tile[row * kTileColumns + column] + (block.accumulate ? out : 0.0f);
        }
      }
    }
  }
}

// out = sums + bias + beta out, rounded once; `bias` may be null.
template <class T>
void gemm_round(const float* sums, const void* bias, float beta, void* out, int64_t columns) {
  T* target = static_cast<T*>(out);
  sweep(
      columns, [&](int64_t i, auto n) __attribute__((always_inline)) {
        F v = load(sums + i, n);
        if (bias != nullptr) v += load(static_cast<const T*>(bias) + i, n);
        if (beta != 0.0f) v += load(target + i, n);
        store(target + i, v, n);
      });
}

}  // namespace sftbench::ops::SFTBENCH_ISA
