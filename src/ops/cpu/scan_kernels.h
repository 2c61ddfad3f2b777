// The chunked state-space scan, forward and backward (Dao and Gu 2024, section 6), by products of
// tiles in float32. Everything of a chunk is padded with zeros to whole vectors. Names of matrices
// end with what their rows and columns are: L positions of the chunk, N and P as in
// state_space_scan.h. See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/tile_products.h"

namespace sftbench::ops::SFTBENCH_ISA {

// --- products of matrices that are larger than the first-level cache --------------------------------

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
        multiply_columns<FloatUnits, SFTBENCH_BLOCK_VECTORS>(
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

// to [columns, rows] = from^T; both are multiples of kLanes.
inline void transpose_floats(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t i = 0; i < rows; i += kLanes) {
    for (int64_t j = 0; j < columns; j += kLanes) {
      F block[SFTBENCH_LANES];
      for (int64_t r = 0; r < kLanes; ++r) block[r] = load(from + (i + r) * columns + j);
      transpose(block);
      for (int64_t r = 0; r < kLanes; ++r) store(to + (j + r) * rows + i, block[r]);
    }
  }
}

// While this lives, numbers below the smallest normal one are 0. What decays passes through them, and
// an instruction takes a hundred times as long on them.
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

// --- a chunk ----------------------------------------------------------------------------------------

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
struct Decays {
  float rate;                                                 // a
  float high[ScanProblem::kChunk], low[ScanProblem::kChunk];  // sums of steps
  float step[ScanProblem::kChunk];                            // dt
  float since_start[ScanProblem::kChunk];                     // decays
  float to_end[ScanProblem::kChunk];
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

// The decay over these steps, 0 behind t.
SFTBENCH_INLINE F decay_over(const Decays& d, F time, int64_t s, int64_t t) {
  const F decay = exponential(time * d.rate);
  return s + kLanes <= t + 1 ? decay : (positions_before(s, t + 1) ? decay : splat(0));
}

// scores [L, L]: c_t b_s for s up to t, the same for all heads of the group.
template <class T>
void scan_scores(const ScanProblem& p, const ScanChunkRange& chunk, int64_t group, float* scratch) {
  const ChunkSizes n = sizes_of(p, chunk);
  ScratchMemory memory{scratch};
  float* const b_LN = memory.take(n.length * n.state);
  float* const c_LN = memory.take(n.length * n.state);
  float* const b_NL = memory.take(n.length * n.state);
  widen_chunk<T>(p.b, p.b_stride, chunk, group * p.state, p.state, n, b_LN);
  widen_chunk<T>(p.c, p.c_stride, chunk, group * p.state, p.state, n, c_LN);
  transpose_floats(b_LN, n.length, n.state, b_NL);
  multiply_strips<Need::kColumnsToRow>(left_operand(c_LN, n.state, 1), b_NL, n.length, n.length,
                                       n.state, p.scores_of(chunk, group), false);
}

// --- forward ----------------------------------------------------------------------------------------

// m [L, L] = scores times decays times steps, with zeros behind the diagonal as far as products read.
inline void mix_positions(const float* scores, const Decays& d, int64_t length, float* m) {
  for (int64_t t = 0; t < length; ++t) {
    const int64_t end = round_up(t + 1, kLanes);
    for (int64_t s = 0; s < end; s += kLanes) {
      const int64_t at = t * length + s;
      store(m + at,
            load(scores + at) * decay_over(d, time_between(d, s, t), s, t) * load(d.step + s));
    }
  }
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

// The chunks of one sequence, for some heads of one group. States begin at 0.
template <class T>
void scan_forward(const ScanProblem& p, const ScanTask& task, float* scratch) {
  const WithoutSubnormals guard;
  ScratchMemory memory{scratch};
  const int64_t most = ScanProblem::kChunk, state = p.padded_state(), dim = p.padded_dim();
  float* const b_LN = memory.take(most * state);
  float* const c_LN = memory.take(most * state);
  float* const x_LP = memory.take(most * dim);
  float* const fed_LP = memory.take(most * dim);
  float* const y_LP = memory.take(most * dim);
  float* const before_LP = memory.take(most * dim);
  float* const m_LL = memory.take(most * most);
  float* const states = memory.take(task.heads * state * dim);
  for (int64_t i = 0; i < task.chunk_count; ++i) {
    const ScanChunkRange& chunk = task.chunks[i];
    const ChunkSizes n = sizes_of(p, chunk);
    const bool starts = i == 0, ends = i + 1 == task.chunk_count;
    widen_chunk<T>(p.b, p.b_stride, chunk, task.group * p.state, p.state, n, b_LN);
    widen_chunk<T>(p.c, p.c_stride, chunk, task.group * p.state, p.state, n, c_LN);
    for (int64_t j = 0; j < task.heads; ++j) {
      const int64_t head = task.first_head + j;
      Decays d;
      find_decays(p, chunk, head, n.length, d);
      widen_chunk<T>(p.x, p.x_stride, chunk, head * p.dim, p.dim, n, x_LP);
      mix_positions(p.scores_of(chunk, task.group), d, n.length, m_LL);
      multiply_lower(m_LL, x_LP, n.length, n.dim, y_LP, false);
      float* state_NP = p.states == nullptr ? states + j * n.matrix() : p.state_of(chunk, head);
      if (!starts) {
        multiply_strips<Need::kAll>(left_operand(c_LN, n.state, 1), state_NP, n.length, n.dim,
                                    n.state, before_LP, false);
      }
      T* y = static_cast<T*>(p.y) + (chunk.row * p.heads + head) * p.dim;
      for (int64_t t = 0; t < chunk.length; ++t) {
        const float since_start = starts ? 0.0f : d.since_start[t], skip = p.d[head];
        const float *within = y_LP + t * n.dim, *before = starts ? within : before_LP + t * n.dim;
        const float* x = x_LP + t * n.dim;
        T* out = y + t * p.heads * p.dim;
        if (t + kFetchedAhead < chunk.length)
          fetch_row<1>(out + kFetchedAhead * p.heads * p.dim, p.dim);
        sweep(
            p.dim, [&](int64_t k, auto lanes) __attribute__((always_inline)) {
              store(out + k,
                    load(within + k, lanes) + load(before + k, lanes) * since_start +
                        load(x + k, lanes) * skip,
                    lanes);
            });
      }
      if (ends) continue;
      float* next_NP = p.states == nullptr ? state_NP : p.state_of(task.chunks[i + 1], head);
      if (!starts) scale(state_NP, d.over_chunk, n.matrix(), next_NP);
      scale_rows(x_LP, d.to_end, d.step, n.length, n.dim, fed_LP);
      multiply_strips<Need::kAll>(left_operand(b_LN, 1, n.state), fed_LP, n.state, n.dim, n.length,
                                  next_NP, !starts);
    }
  }
}

// --- backward ---------------------------------------------------------------------------------------

// What a head's gradients of the logarithms of decays and of steps are made of, by position.
struct DecayGradients {
  float log_decay[ScanProblem::kChunk];  // since the start
  float leaving[ScanProblem::kChunk];    // part of it: what is seen by later positions
  float step[ScanProblem::kChunk];       // without what goes through the decays
  // Each decay's own part, times its steps. Sums by position would cancel one another.
  F rate;
};

// From d_m, the gradients of m: m itself, and the gradients of the scores, of steps and of decays.
inline void differentiate_mix(const float* scores, const float* d_m, const Decays& d,
                              int64_t length, float* m, float* d_scores, DecayGradients& g) {
  for (int64_t t = 0; t < length; ++t) {
    const int64_t end = round_up(t + 1, kLanes);
    F row = splat(0);
    for (int64_t s = 0; s < end; s += kLanes) {
      const int64_t at = t * length + s;
      const F step = load(d.step + s), time = time_between(d, s, t);
      const F decay = decay_over(d, time, s, t);
      const F score = load(scores + at), gradient = load(d_m + at);
      store(m + at, score * decay * step);
      store(d_scores + at, load(d_scores + at) + gradient * decay * step);
      const F d_step = gradient * score * decay;
      store(g.step + s, load(g.step + s) + d_step);
      F by_decay = d_step * step;
      if (s + kLanes > t) by_decay = positions_before(s, t) ? by_decay : splat(0);
      store(g.leaving + s, load(g.leaving + s) + by_decay);
      row += by_decay;
      g.rate += by_decay * time;
    }
    g.log_decay[t] = sum(row);
  }
  for (int64_t s = 0; s < length; s += kLanes)
    store(g.log_decay + s, load(g.log_decay + s) - load(g.leaving + s));
}

// sums [N, L] += factors by position times part [N, L]; dots[position] = sum over N of part * other.
inline void add_scaled_columns(const float* part, const float* other, const float* factors,
                               int64_t rows, int64_t length, float* sums, float* dots) {
  for (int64_t t = 0; t < length; t += kLanes) {
    const F factor = load(factors + t);
    F dot = splat(0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * length + t;
      const F v = load(part + at);
      dot += v * load(other + at);
      store(sums + at, load(sums + at) + v * factor);
    }
    store(dots + t, dot);
  }
}

inline float dot_product(const float* a, const float* b, int64_t numel) {
  F total = splat(0);
  for (int64_t i = 0; i < numel; i += kLanes) total += load(a + i) * load(b + i);
  return sum(total);
}

// The memory of the backward pass; what stands in the second half is shared by the heads of a chunk.
struct BackwardMemory {
  float *x_LP, *x_PL, *dy_LP, *dy_PL, *grown_LP, *dx_LP;
  float *m_LL, *d_m_LL, *part_NL;
  float *b_LN, *c_LN, *b_NL, *c_NL, *db_NL, *dc_NL, *d_scores_LL, *sum_LN;
  float* state_gradients;  // [heads, N, P]

  BackwardMemory(const ScanProblem& p, float* scratch) {
    ScratchMemory memory{scratch};
    const int64_t most = ScanProblem::kChunk;
    for (float** each : {&x_LP, &x_PL, &dy_LP, &dy_PL, &grown_LP, &dx_LP})
      *each = memory.take(most * p.padded_dim());
    for (float** each : {&m_LL, &d_m_LL, &d_scores_LL}) *each = memory.take(most * most);
    for (float** each : {&part_NL, &b_LN, &c_LN, &b_NL, &c_NL, &db_NL, &dc_NL, &sum_LN})
      *each = memory.take(most * p.padded_state());
    state_gradients = memory.next;
  }
};

// The gradients of one head in one chunk; adds to those that heads share. `starts` and `ends`: the
// chunk is the first or last of its sequence, where no state comes in or goes out.
template <class T>
void scan_head_backward(const ScanProblem& p, const ScanTask& task, const ScanChunkRange& chunk,
                        int64_t head, bool starts, bool ends, const BackwardMemory& w,
                        float* d_state_NP) {
  const ChunkSizes n = sizes_of(p, chunk);
  const int64_t length = n.length;
  Decays d;
  find_decays(p, chunk, head, length, d);
  widen_chunk<T>(p.x, p.x_stride, chunk, head * p.dim, p.dim, n, w.x_LP);
  widen_chunk<T>(p.y_gradient, p.heads * p.dim, chunk, head * p.dim, p.dim, n, w.dy_LP);
  transpose_floats(w.x_LP, length, n.dim, w.x_PL);
  DecayGradients g;
  zero(g.step, length);
  zero(g.leaving, length);
  g.rate = splat(0);

  // Within the chunk.
  multiply_strips<Need::kColumnsToRow>(left_operand(w.dy_LP, n.dim, 1), w.x_PL, length, length,
                                       n.dim, w.d_m_LL, false);
  differentiate_mix(p.scores_of(chunk, task.group), w.d_m_LL, d, length, w.m_LL, w.d_scores_LL, g);

  // Into the state behind the chunk: to_end dt b x^T.
  float dots[ScanProblem::kChunk], fed[ScanProblem::kChunk];
  float at_end = 0;  // gradient of the logarithm of the decay over the chunk
  float over_chunk = 0;
  if (!ends) {
    for (int64_t t = 0; t < length; t += kLanes)
      store(fed + t, load(d.to_end + t) * load(d.step + t));
    multiply_strips<Need::kAll>(left_operand(d_state_NP, n.dim, 1), w.x_PL, n.state, length, n.dim,
                                w.part_NL, false);
    add_scaled_columns(w.part_NL, w.b_NL, fed, n.state, length, w.db_NL, dots);
    multiply_strips<Need::kAll>(left_operand(w.b_LN, n.state, 1), d_state_NP, length, n.dim,
                                n.state, w.dx_LP, false);
    scale_rows(w.dx_LP, fed, nullptr, length, n.dim, w.dx_LP);
    F total = splat(0);
    for (int64_t t = 0; t < length; t += kLanes) {
      const F dot = load(dots + t), by_decay = dot * load(fed + t);
      store(g.step + t, load(g.step + t) + dot * load(d.to_end + t));
      store(g.log_decay + t, load(g.log_decay + t) - by_decay);
      g.rate += by_decay * time_to_end(d, t);
      total += by_decay;
    }
    at_end = sum(total);
  }
  multiply_upper(w.m_LL, w.dy_LP, length, n.dim, w.dx_LP, !ends);

  // From the state before the chunk: since_start c state.
  if (!starts) {
    const float* state_NP = p.state_of(chunk, head);
    transpose_floats(w.dy_LP, length, n.dim, w.dy_PL);
    multiply_strips<Need::kAll>(left_operand(state_NP, n.dim, 1), w.dy_PL, n.state, length, n.dim,
                                w.part_NL, false);
    add_scaled_columns(w.part_NL, w.c_NL, d.since_start, n.state, length, w.dc_NL, dots);
    for (int64_t t = 0; t < length; t += kLanes) {
      const F by_decay = load(dots + t) * load(d.since_start + t);
      store(g.log_decay + t, load(g.log_decay + t) + by_decay);
      g.rate += by_decay * load(d.high + t);
    }
    if (!ends) {
      const float by_decay = d.over_chunk * dot_product(state_NP, d_state_NP, n.matrix());
      at_end += by_decay;
      over_chunk = by_decay * d.end_high;
    }
    scale_rows(w.dy_LP, d.since_start, nullptr, length, n.dim, w.grown_LP);
    if (!ends) scale(d_state_NP, d.over_chunk, n.matrix(), d_state_NP);
    multiply_strips<Need::kAll>(left_operand(w.c_LN, 1, n.state), w.grown_LP, n.state, n.dim,
                                length, d_state_NP, !ends);
  }

  // Sums that begin at each position: a step's logarithm decays all that come after it.
  double later = at_end;
  float* dt = p.dt_gradient + chunk.row * p.heads + head;
  for (int64_t t = chunk.length - 1; t >= 0; --t) {
    later += static_cast<double>(g.log_decay[t]);
    dt[t * p.heads] = g.step[t] + static_cast<float>(later * static_cast<double>(d.rate));
  }
  p.a_gradient[task.sequence * p.heads + head] += sum(g.rate) + over_chunk;
  p.d_gradient[task.sequence * p.heads + head] += dot_product(w.x_LP, w.dy_LP, length * n.dim);

  T* dx = static_cast<T*>(p.x_gradient) + (chunk.row * p.heads + head) * p.dim;
  const float skip = p.d[head];
  for (int64_t t = 0; t < chunk.length; ++t) {
    const float *sums = w.dx_LP + t * n.dim, *dy = w.dy_LP + t * n.dim;
    if (t + kFetchedAhead < chunk.length)
      fetch_row<1>(dx + (t + kFetchedAhead) * p.heads * p.dim, p.dim);
    sweep(
        p.dim, [&](int64_t k, auto lanes) __attribute__((always_inline)) {
          store(dx + t * p.heads * p.dim + k, load(sums + k, lanes) + load(dy + k, lanes) * skip,
                lanes);
        });
  }
}

// The gradients of b or c of the heads of a task: those by way of states [N, L], and of the scores.
inline void write_part(const ScanProblem& p, const ScanTask& task, const ScanChunkRange& chunk,
                       const float* sum_LN, int64_t padded, float* parts) {
  const int64_t width = p.groups * p.state;
  float* out = parts + task.part * p.part_numel + chunk.row * width + task.group * p.state;
  for (int64_t t = 0; t < chunk.length; ++t) {
    sweep(
        p.state, [&](int64_t k, auto lanes) __attribute__((always_inline)) {
          store(out + t * width + k, load(sum_LN + t * padded + k, lanes), lanes);
        });
  }
}

template <class T>
void scan_backward(const ScanProblem& p, const ScanTask& task, float* scratch) {
  const WithoutSubnormals guard;
  const BackwardMemory w(p, scratch);
  for (int64_t i = task.chunk_count - 1; i >= 0; --i) {
    const ScanChunkRange& chunk = task.chunks[i];
    const ChunkSizes n = sizes_of(p, chunk);
    widen_chunk<T>(p.b, p.b_stride, chunk, task.group * p.state, p.state, n, w.b_LN);
    widen_chunk<T>(p.c, p.c_stride, chunk, task.group * p.state, p.state, n, w.c_LN);
    transpose_floats(w.b_LN, n.length, n.state, w.b_NL);
    transpose_floats(w.c_LN, n.length, n.state, w.c_NL);
    zero(w.db_NL, n.length * n.state);
    zero(w.dc_NL, n.length * n.state);
    zero(w.d_scores_LL, n.length * n.length);
    for (int64_t j = 0; j < task.heads; ++j) {
      scan_head_backward<T>(p, task, chunk, task.first_head + j, i == 0, i + 1 == task.chunk_count,
                            w, w.state_gradients + j * n.matrix());
    }
    transpose_floats(w.db_NL, n.state, n.length, w.sum_LN);
    multiply_upper(w.d_scores_LL, w.c_LN, n.length, n.state, w.sum_LN, true);
    write_part(p, task, chunk, w.sum_LN, n.state, p.b_parts);
    transpose_floats(w.dc_NL, n.state, n.length, w.sum_LN);
    multiply_lower(w.d_scores_LL, w.b_LN, n.length, n.state, w.sum_LN, true);
    write_part(p, task, chunk, w.sum_LN, n.state, p.c_parts);
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
