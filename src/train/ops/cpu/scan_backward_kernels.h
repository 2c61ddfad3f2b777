// The chunked state-space scan, backward: the gradients of scan_forward_kernels.h, chunk by chunk
// from the last one. See scan_chunk.h.
#pragma once

#include "ops/cpu/scan_chunk.h"

namespace sftbench::ops::SFTBENCH_ISA {

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
      const F step = load(d.step + s), decay = decay_between(d, s, t);
      const F score = load(scores + at), gradient = load(d_m + at);
      store(m + at, score * decay * step);
      store(d_scores + at, load(d_scores + at) + gradient * decay * step);
      const F d_step = gradient * score * decay;
      store(g.step + s, load(g.step + s) + d_step);
      F by_decay = d_step * step;
      if (s + kLanes > t) by_decay = positions_before(s, t) ? by_decay : splat(0);
      store(g.leaving + s, load(g.leaving + s) + by_decay);
      row += by_decay;
      g.rate += by_decay * time_between(d, s, t);
    }
    g.log_decay[t] = sum(row);
  }
  for (int64_t s = 0; s < length; s += kLanes)
    store(g.log_decay + s, load(g.log_decay + s) - load(g.leaving + s));
}

// sums [N, L] += factors by position times part [N, L]; dots[position] = sum over N of part *
// other.
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

// The memory of the backward pass; what stands in the second half is shared by the heads of a
// chunk.
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
  transpose_matrix(w.x_LP, n.dim, length, n.dim, w.x_PL, length);
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
    transpose_matrix(w.dy_LP, n.dim, length, n.dim, w.dy_PL, length);
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
    transpose_matrix(w.b_LN, n.state, n.length, n.state, w.b_NL, n.length);
    transpose_matrix(w.c_LN, n.state, n.length, n.state, w.c_NL, n.length);
    zero(w.db_NL, n.length * n.state);
    zero(w.dc_NL, n.length * n.state);
    zero(w.d_scores_LL, n.length * n.length);
    for (int64_t j = 0; j < task.heads; ++j) {
      scan_head_backward<T>(p, task, chunk, task.first_head + j, i == 0, i + 1 == task.chunk_count,
                            w, w.state_gradients + j * n.matrix());
    }
    transpose_matrix(w.db_NL, n.length, n.state, n.length, w.sum_LN, n.state);
    multiply_upper(w.d_scores_LL, w.c_LN, n.length, n.state, w.sum_LN, true);
    write_part(p, task, chunk, w.sum_LN, n.state, p.b_parts);
    transpose_matrix(w.dc_NL, n.length, n.state, n.length, w.sum_LN, n.state);
    multiply_lower(w.d_scores_LL, w.b_LN, n.length, n.state, w.sum_LN, true);
    write_part(p, task, chunk, w.sum_LN, n.state, p.c_parts);
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
