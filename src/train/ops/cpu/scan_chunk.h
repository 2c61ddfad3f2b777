// One chunk of a state-space scan, which the forward and the backward pass share: products of tiles
// in float32, what decays how far, and the inputs widened. Everything of a chunk is padded with
// zeros to whole vectors. Names of matrices end with what their rows and columns are: L positions
// of the chunk, N and P as in state_space_scan.h. See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/tile_products.h"

namespace sftbench::ops::SFTBENCH_ISA {

// --- products of matrices that are larger than the first-level cache -----------------------------

SFTBENCH_INLINE LeftOperand left_operand(const float* data, int64_t row, int64_t unit) {
  return {reinterpret_cast<const uint32_t*>(data), row, unit};
}

// c [rows, columns] (+)= a b, with b in strips of kTile x kTile that stay in the cache. kNeed as in
// `multiply`, of a square tile.
template <Need kNeed>
void multiply_strips(LeftOperand a, const float* b, int64_t rows, int64_t columns, int64_t units,
                     float* c, bool accumulate) {
  constexpr int64_t kRows = SFTBENCH_BLOCK_ROWS;
  const auto* right = reinterpret_cast<const uint32_t*>(b);
  for (int64_t k = 0; k < units; k += kTile) {
    const int64_t depth = smaller(kTile, units - k);
    for (int64_t j = 0; j < columns; j += kTile) {
      for (int64_t i = 0; i < rows; i += kRows) {
        const int64_t first = kNeed == Need::kUnitsFromRow ? i : 0;
        const int64_t last = kNeed == Need::kUnitsToRow ? smaller(i + kRows, depth) : depth;
        const int64_t limit = kNeed == Need::kColumnsToRow ? round_up(i + kRows, kLanes) : columns;
        multiply_columns<FloatUnits, SFTBENCH_BLOCK_ROWS, SFTBENCH_BLOCK_VECTORS>(
            {a.data + i * a.row + (k + first) * a.unit, a.row, a.unit},
            right + (k + first) * columns, columns, last - first, c + i * columns,
            accumulate || k > 0, j, smaller(j + kTile, limit));
      }
    }
  }
}

// c [rows, columns] (+)= m b for a lower triangular m [rows, rows].
inline void multiply_lower(const float* m, const float* b, int64_t rows, int64_t columns, float* c,
                           bool accumulate) {
  for (int64_t k = 0; k < rows; k += kTile) {
    const int64_t depth = smaller(kTile, rows - k), below = rows - k - depth;
    const float* diagonal = m + k * rows + k;
    const bool adds = accumulate || k > 0;
    multiply_strips<Need::kUnitsToRow>(left_operand(diagonal, rows, 1), b + k * columns, depth,
                                       columns, depth, c + k * columns, adds);
    multiply_strips<Need::kAll>(left_operand(diagonal + depth * rows, rows, 1), b + k * columns,
                                below, columns, depth, c + (k + depth) * columns, adds);
  }
}

// c [rows, columns] (+)= m^T b for a lower triangular m [rows, rows].
inline void multiply_upper(const float* m, const float* b, int64_t rows, int64_t columns, float* c,
                           bool accumulate) {
  for (int64_t k = 0; k < rows; k += kTile) {
    const int64_t depth = smaller(kTile, rows - k);
    const float* at = m + k * rows;
    multiply_strips<Need::kAll>(left_operand(at, 1, rows), b + k * columns, k, columns, depth, c,
                                true);
    multiply_strips<Need::kUnitsFromRow>(left_operand(at + k, 1, rows), b + k * columns, depth,
                                         columns, depth, c + k * columns, accumulate);
  }
}

// While this lives, numbers below the smallest normal one are 0. What decays passes through them,
// and an instruction takes a hundred times as long on them.
class WithoutSubnormals {
 public:
  WithoutSubnormals() : saved_(_mm_getcsr()) {
    constexpr unsigned kFlushToZero = 0x8000, kSubnormalsAreZero = 0x0040;
    _mm_setcsr(saved_ | kFlushToZero | kSubnormalsAreZero);
  }
  ~WithoutSubnormals() { _mm_setcsr(saved_); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;

 private:
  unsigned saved_;
};

// --- a chunk -------------------------------------------------------------------------------------

struct ChunkSizes {
  int64_t length;      // padded, like the following
  int64_t state, dim;  // N and P
  int64_t matrix() const { return state * dim; }
};

SFTBENCH_INLINE ChunkSizes sizes_of(const ScanProblem& p, const ScanChunkRange& chunk) {
  return {round_up(chunk.length, ScanProblem::kLanes), p.padded_state(), p.padded_dim()};
}

// Takes ranges of the scratch memory one after the other.
struct ScratchMemory {
  float* next;
  SFTBENCH_INLINE float* take(int64_t numel) {
    float* const taken = next;
    next += numel;
    return taken;
  }
};

inline void zero(float* out, int64_t numel) {
  for (int64_t i = 0; i < numel; i += kLanes) store(out + i, splat(0));
}

// Rows of one head lie far apart, where processors do not look ahead by themselves.
template <int kWrites, class T>
SFTBENCH_INLINE void fetch_row(const T* row, int64_t width) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, kWrites);
}
constexpr int64_t kFetchedAhead = 8;  // rows

// Positions of a chunk of one head or group, widened: out [padded length, padded width].
template <class T>
void widen_chunk(const void* tensor, int64_t stride, const ScanChunkRange& chunk, int64_t first,
                 int64_t width, const ChunkSizes& sizes, float* out) {
  const int64_t padded = round_up(width, ScanProblem::kLanes);
  const T* const rows = static_cast<const T*>(tensor) + chunk.row * stride + first;
  for (int64_t t = 0; t < chunk.length; ++t) {
    const T* const row = rows + t * stride;
    if (t + kFetchedAhead < chunk.length) fetch_row<0>(row + kFetchedAhead * stride, width);
    for (int64_t i = 0; i < padded; i += kLanes) {
      const int64_t left = width - i;
      store(out + t * padded + i,
            left >= kLanes ? load(row + i) : (left > 0 ? load(row + i, left) : splat(0)));
    }
  }
  zero(out + chunk.length * padded, (sizes.length - chunk.length) * padded);
}

// What decays how far in a chunk of one head: by exp(a times the steps between two positions). The
// sums of steps are kept as two floats, so that their differences are as exact near the end of a
// chunk as at its start.
//
// From s to a later t, which lies behind the vector of s, decays the product of two factors: from s
// to the end of its vector, and from there to t. An exponential for each pair would take as long as
// the products of matrices do.
struct Decays {
  static constexpr int64_t kChunk = ScanProblem::kChunk, kVectors = kChunk / kLanes;

  float rate;                       // a
  float high[kChunk], low[kChunk];  // sums of steps
  float step[kChunk];               // dt
  float since_start[kChunk];        // decays
  float to_end[kChunk];
  float to_vector_end[kChunk];
  float since_vector[kVectors][kChunk];  // [v, t]: from the end of vector v to t, behind it only
  float end_high, end_low;
  float over_chunk;
};

SFTBENCH_INLINE F time_to_end(const Decays& d, int64_t t) {
  return (d.end_high - load(d.high + t)) + (d.end_low - load(d.low + t));
}

inline void find_decays(const ScanProblem& p, const ScanChunkRange& chunk, int64_t head,
                        int64_t length, Decays& d) {
  const float* dt = p.dt + chunk.row * p.heads + head;
  double total = 0;
  for (int64_t t = 0; t < length; ++t) {
    d.step[t] = t < chunk.length ? dt[t * p.heads] : 0.0f;
    total += static_cast<double>(d.step[t]);
    d.high[t] = static_cast<float>(total);
    d.low[t] = static_cast<float>(total - static_cast<double>(d.high[t]));
  }
  d.rate = p.a[head];
  d.end_high = static_cast<float>(total);
  d.end_low = static_cast<float>(total - static_cast<double>(d.end_high));
  for (int64_t t = 0; t < length; t += kLanes) {
    store(d.since_start + t, exponential(load(d.high + t) * d.rate));
    store(d.to_end + t, exponential(time_to_end(d, t) * d.rate));
    const int64_t last = t + kLanes - 1;
    const F left = (d.high[last] - load(d.high + t)) + (d.low[last] - load(d.low + t));
    store(d.to_vector_end + t, exponential(left * d.rate));
    for (int64_t later = t + kLanes; later < length; later += kLanes) {
      const F since = (load(d.high + later) - d.high[last]) + (load(d.low + later) - d.low[last]);
      store(d.since_vector[t / kLanes] + later, exponential(since * d.rate));
    }
  }
  d.over_chunk = exponential(splat(d.end_high * d.rate))[0];
}

// Steps from the positions at s to t: negative behind t.
SFTBENCH_INLINE F time_between(const Decays& d, int64_t s, int64_t t) {
  return (d.high[t] - load(d.high + s)) + (d.low[t] - load(d.low + s));
}

// Of the vector of positions from s: those before t, or up to t.
SFTBENCH_INLINE I positions_before(int64_t s, int64_t t) {
  I lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < static_cast<int32_t>(t - s);
}

// The decay from the vector of positions at s to t, 0 behind t.
SFTBENCH_INLINE F decay_between(const Decays& d, int64_t s, int64_t t) {
  if (s + kLanes <= t) return load(d.to_vector_end + s) * d.since_vector[s / kLanes][t];
  const F decay = exponential(time_between(d, s, t) * d.rate);
  return positions_before(s, t + 1) ? decay : splat(0);
}

// to [L, P] = from with each row times factors[row] (and other[row]).
inline void scale_rows(const float* from, const float* factors, const float* other, int64_t rows,
                       int64_t width, float* to) {
  for (int64_t row = 0; row < rows; ++row) {
    const float factor = other == nullptr ? factors[row] : factors[row] * other[row];
    for (int64_t i = 0; i < width; i += kLanes)
      store(to + row * width + i, load(from + row * width + i) * factor);
  }
}

inline void scale(const float* from, float factor, int64_t numel, float* to) {
  for (int64_t i = 0; i < numel; i += kLanes) store(to + i, load(from + i) * factor);
}

}  // namespace sftbench::ops::SFTBENCH_ISA
