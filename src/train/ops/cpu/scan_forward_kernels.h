// The chunked state-space scan, forward (Dao and Gu 2024, section 6). See scan_chunk.h.
#pragma once

#include "ops/cpu/scan_chunk.h"

namespace sftbench::ops::SFTBENCH_ISA {

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
  transpose_matrix(b_LN, n.state, n.length, n.state, b_NL, n.length);
  multiply_strips<Need::kColumnsToRow>(left_operand(c_LN, n.state, 1), b_NL, n.length, n.length,
                                       n.state, p.scores_of(chunk, group), false);
}

// m [L, L] = scores times decays times steps, with zeros behind the diagonal as far as products
// read.
inline void mix_positions(const float* scores, const Decays& d, int64_t length, float* m) {
  for (int64_t t = 0; t < length; ++t) {
    const int64_t end = round_up(t + 1, kLanes);
    for (int64_t s = 0; s < end; s += kLanes) {
      const int64_t at = t * length + s;
      store(m + at, load(scores + at) * decay_between(d, s, t) * load(d.step + s));
    }
  }
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

}  // namespace sftbench::ops::SFTBENCH_ISA
