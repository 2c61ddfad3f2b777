// Causal attention on tiles of 64 queries x 64 keys, forward and backward (Dao 2023,
// FlashAttention-2). See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/attention_scores.h"
#include "ops/cpu/transpose.h"

namespace sftbench::ops::SFTBENCH_ISA {

// Where rows of floats [rows, padded D] go.
struct WrittenRows {
  int64_t at, stride;  // of the first element, and between rows
  int64_t count, width;
};

// Writes rows of values, `stride` apart, times a factor per row into the tensor, or adds them to
// what is there.
template <class T>
void write_rows(void* tensor, const WrittenRows& to, const float* values, int64_t stride,
                const float* factors, bool adds) {
  T* out = static_cast<T*>(tensor) + to.at;
  for (int64_t row = 0; row < to.count; ++row) {
    const float factor = factors == nullptr ? 1.0f : factors[row];
    sweep(
        to.width, [&](int64_t i, auto n) __attribute__((always_inline)) {
          T* element = out + row * to.stride + i;
          const F value = load(values + row * stride + i, n) * factor;
          store(element, adds ? load(element, n) + value : value, n);
        });
  }
}

template <class T>
void write_queries(const Head& head, void* tensor, int64_t tile, int64_t query_head,
                   const float* values, const float* factors = nullptr) {
  const AttentionProblem& p = head.problem;
  write_rows<T>(
      tensor,
      {head.offset(tile, p.q_row, p.heads, query_head), p.heads * p.dim, head.count(tile), p.dim},
      values, p.padded_dim(), factors, p.adds && factors == nullptr);
}

// Of sums as add_over_queries leaves them.
template <class Units, class T>
void write_keys(const Head& head, void* tensor, int64_t key_tile, const float* sums) {
  const AttentionProblem& p = head.problem;
  const WrittenRows to{head.offset(key_tile, p.k_row, p.kv_heads, head.kv_head), p.kv_heads * p.dim,
                       head.key_count(key_tile), p.dim};
#ifdef SFTBENCH_HAS_TILES
  float block[kTile * kTileUnits];
  for (int64_t i = 0; i < p.dim; i += kTileUnits) {
    transpose_matrix(sums + i * kTile, kTile, kTileUnits, kTile, block, kTileUnits);
    write_rows<T>(tensor, {to.at + i, to.stride, to.count, smaller(kTileUnits, p.dim - i)}, block,
                  kTileUnits, nullptr, p.adds);
  }
#else
  write_rows<T>(tensor, to, sums, p.padded_dim(), nullptr, p.adds);
#endif
}

template <class Units, class T>
void attention_pack(const AttentionProblem& p, int64_t kv_head_index, int64_t tile) {
  const Head head(p, kv_head_index);
  const int64_t at = (kv_head_index * p.key_tiles() + tile) * Head::packed<Units>(p);
  const Rows<T> k = head.keys<T>(p.k, tile);
  const Rows<T> v = head.keys<T>(p.v, tile);
  pack_transposed<Units>(k, p.k_transposed + at);
  if (p.k_natural != nullptr) pack_natural<Units>(k, kTile, p.k_natural + at);
  if (p.v_natural != nullptr) pack_natural<Units>(v, kTile, p.v_natural + at);
  if (p.v_transposed != nullptr) pack_transposed<Units>(v, p.v_transposed + at);
}

// --- forward -------------------------------------------------------------------------------------

// Rows of probabilities are formed in registers, in steps of the padding.
constexpr int64_t kStep = AttentionProblem::kLanes;

template <int64_t kSteps>
struct Vectors {
  static constexpr int64_t value = kSteps * kStep / kLanes;
};

struct RunningSoftmax {
  float top[kTile];
  F total[kTile];  // by lane, added up at the end
};

// Turns the first kVectors of a row of scores into probabilities relative to the running maximum;
// rescales what was summed before. Of dropout's factors there are as many, or there is no dropout.
template <class Units, int64_t kVectors>
SFTBENCH_INLINE void soften_row(const float* scores, float scale, int64_t dim, const float* kept,
                                uint32_t* probabilities, float& running_top, F& running_total,
                                float* output) {
  F v[kVectors];
  F largest = splat(-kInfinity);
  for (int64_t j = 0; j < kVectors; ++j) {
    v[j] = load(scores + j * kLanes) * scale;
    largest = maximum(largest, v[j]);
  }
  float top = maximum(largest);
  top = top > running_top ? top : running_top;
  const float base = top == -kInfinity ? 0.0f : top;
  const float correction = exponential(splat(running_top - base))[0];
  running_top = top;
  running_total *= correction;
  for (int64_t j = 0; j < kVectors; ++j) {
    v[j] = exponential(v[j] - base);
    running_total += v[j];
    if (kept != nullptr) v[j] *= load(kept + j * kLanes);
    put_units<Units>(probabilities + j * kLanes / Units::kPer, v[j]);
  }
  if (correction == 1.0f) return;
  for (int64_t i = 0; i < dim; i += kLanes) store(output + i, load(output + i) * correction);
}

template <class Units, bool kDrops>
void soften(const Head& head, int64_t query_head, int64_t tile, int64_t key_tile, float* scores,
            uint32_t* probabilities, RunningSoftmax& running, float* output) {
  const AttentionProblem& p = head.problem;
  const bool cut = head.cuts(tile, key_tile);
  for (int64_t row = 0; row < head.computed_rows(tile); ++row) {
    const int64_t keys =
        head.diagonal(tile, key_tile) ? round_up(row + 1, larger(kStep, kBlockRows)) : kTile;
    float* s = scores + row * kTile;
    if (p.cap > 0) cap_scores(p, keys, s);
    if (p.slopes != nullptr) lean_scores(p, query_head, tile * kTile + row, key_tile, keys, s);
    if (cut) hide_keys(p, tile * kTile + row, key_tile, keys, s);
    float kept[kDrops ? kTile : 1];
    if constexpr (kDrops) keep_keys(head, query_head, tile * kTile + row, key_tile, kept);
    const auto soften_vectors = [&](auto vectors) __attribute__((always_inline)) {
      soften_row<Units, decltype(vectors)::value>(
          s, p.scale, p.padded_dim(), kDrops ? kept : nullptr,
          probabilities + row * kTile / Units::kPer, running.top[row], running.total[row],
          output + row * p.padded_dim());
    };
    static_assert(kTile == 4 * kStep);
    switch (keys / kStep) {
      case 1:
        soften_vectors(Vectors<1>());
        break;
      case 2:
        soften_vectors(Vectors<2>());
        break;
      case 3:
        soften_vectors(Vectors<3>());
        break;
      default:
        soften_vectors(Vectors<4>());
    }
  }
}

// What the softmax of a tile of queries starts from: nothing, the sinks, or what other keys gave.
SFTBENCH_INLINE void begin_rows(const Head& head, int64_t tile, int64_t query_head, int64_t rows,
                                RunningSoftmax& running, float* output) {
  const AttentionProblem& p = head.problem;
  for (int64_t row = 0; row < rows; ++row) {
    running.top[row] = p.sinks == nullptr ? -kInfinity : p.sinks[query_head];
    running.total[row] = splat(0);
    if (p.sinks != nullptr) running.total[row][0] = 1.0f;
  }
  for (int64_t i = 0; i < rows * p.padded_dim(); i += kLanes) store(output + i, splat(0));
  if (!p.adds) return;
  const Rows<float> before = head.queries<float>(p.output, tile, query_head);
  const float* lse = head.lse(tile, query_head);
  for (int64_t row = 0; row < head.count(tile); ++row) {
    if (lse[row] == -kInfinity) continue;
    running.top[row] = lse[row];
    running.total[row][0] = 1.0f;
    for (int64_t i = 0; i < p.padded_dim(); i += kLanes)
      store(output + row * p.padded_dim() + i, before.at(row, i));
  }
}

template <class Units, class T>
void attention_forward(const AttentionProblem& p, int64_t kv_head_index, int64_t tile,
                       float* scratch) {
  const Head head(p, kv_head_index);
  const int64_t dim = p.padded_dim(), packed = Head::packed<Units>(p);
  const int64_t dim_units = dim / Units::kPer, tile_units = kTile / Units::kPer;
  const int64_t rows = head.computed_rows(tile);
  uint32_t* q = reinterpret_cast<uint32_t*>(scratch);
  uint32_t* probabilities = q + kTile * dim;
  float* scores = scratch + kTile * dim + kTile * kTile;
  float* output = scores + kTile * kTile;
  RunningSoftmax running;
  [[maybe_unused]] const typename Units::Session session{};
  for (int64_t member = 0; member < head.group(); ++member) {
    const int64_t query_head = head.kv_head * head.group() + member;
    pack_rows<Units>(head.queries<T>(p.q, tile, query_head), rows, q);
    begin_rows(head, tile, query_head, rows, running, output);
    const int64_t end = head.end_key_tile(tile);
    for (int64_t key_tile = head.first_key_tile(tile); key_tile < end; ++key_tile) {
      const int64_t at = (kv_head_index * p.key_tiles() + key_tile) * packed;
      const bool diagonal = head.diagonal(tile, key_tile);
      (diagonal ? multiply<Units, Need::kColumnsToRow>
                : multiply<Units, Need::kAll>)({q, dim_units, 1}, p.k_transposed + at, rows, kTile,
                                               dim_units, scores, false);
      (p.drop_threshold > 0 ? soften<Units, true>
                            : soften<Units, false>)(head, query_head, tile, key_tile, scores,
                                                    probabilities, running, output);
      (diagonal ? multiply<Units, Need::kUnitsToRow>
                : multiply<Units, Need::kAll>)({probabilities, tile_units, 1}, p.v_natural + at,
                                               rows, dim, tile_units, output, true);
    }
    float inverse[kTile];
    float* lse = head.lse(tile, query_head);
    for (int64_t row = 0; row < head.count(tile); ++row) {
      const float total = sum(running.total[row]);
      inverse[row] = total == 0.0f ? 0.0f : 1.0f / total;  // 0: no key was seen so far
      lse[row] = running.top[row] + __builtin_logf(total);
    }
    if (p.adds) {
      write_queries<float>(head, p.output, tile, query_head, output, inverse);
    } else {
      write_queries<T>(head, p.output, tile, query_head, output, inverse);
    }
  }
}

// --- backward ------------------------------------------------------------------------------------

// The right operand of add_over_queries.
template <class Units, class T>
void pack_queries(const Rows<T>& x, int64_t rows, uint32_t* out) {
#ifdef SFTBENCH_HAS_TILES
  // Pairs take half of the room for floats: the other half holds them before they are transposed.
  uint32_t* natural = out + kTile * x.padded_dim / 2;
  pack_natural<Units>(x, rows, natural);
  transpose_matrix(reinterpret_cast<const float*>(natural), x.padded_dim, rows / 2, x.padded_dim,
                   reinterpret_cast<float*>(out), kTile / 2);
#else
  pack_natural<Units>(x, rows, out);
#endif
}

// Recomputes the probabilities of a tile from the log-sum-exp and forms the gradient of the scores;
// each in the layout of its product.
struct ScoreTiles {
  float *scores, *d_probabilities;
  uint32_t *probabilities_pairs, *d_scores_pairs;  // units along queries
  uint32_t* d_scores_rows;                         // units along keys
};

template <class Units, bool kDrops>
void differentiate(const Head& head, int64_t query_head, int64_t tile, int64_t key_tile,
                   const float* lse, const float* delta, const ScoreTiles& t) {
  const AttentionProblem& p = head.problem;
  const bool cut = head.cuts(tile, key_tile);
  for (int64_t row = 0; row < head.computed_rows(tile); row += 2) {
    const int64_t keys =
        head.diagonal(tile, key_tile) ? round_up(row + 2, larger(kLanes, kBlockRows)) : kTile;
    if (p.cap > 0) {
      cap_scores(p, keys, t.scores + row * kTile);
      cap_scores(p, keys, t.scores + (row + 1) * kTile);
    }
    if (p.slopes != nullptr) {
      lean_scores(p, query_head, tile * kTile + row, key_tile, keys, t.scores + row * kTile);
      lean_scores(p, query_head, tile * kTile + row + 1, key_tile, keys,
                  t.scores + (row + 1) * kTile);
    }
    if (cut) {
      hide_keys(p, tile * kTile + row, key_tile, keys, t.scores + row * kTile);
      hide_keys(p, tile * kTile + row + 1, key_tile, keys, t.scores + (row + 1) * kTile);
    }
    float kept[kDrops ? 2 * kTile : 1];
    if constexpr (kDrops) {
      keep_keys(head, query_head, tile * kTile + row, key_tile, kept);
      keep_keys(head, query_head, tile * kTile + row + 1, key_tile, kept + kTile);
    }
    for (int64_t j = 0; j < keys; j += kLanes) {
      F probability[2], d_score[2];
      for (int64_t r = 0; r < 2; ++r) {
        const int64_t at = (row + r) * kTile + j;
        probability[r] = exponential(load(t.scores + at) * p.scale - lse[row + r]);
        F d_probability = load(t.d_probabilities + at);
        if constexpr (kDrops) d_probability *= load(kept + r * kTile + j);
        d_score[r] = probability[r] * (d_probability - delta[row + r]) * p.scale;
        if (p.cap > 0) d_score[r] *= slope_of_cap(p, load(t.scores + at));
        if constexpr (kDrops) probability[r] *= load(kept + r * kTile + j);
        if constexpr (Units::kPer == 2) put_units<Units>(t.d_scores_rows + at / 2, d_score[r]);
      }
      const int64_t at = row / Units::kPer * kTile + j;
      put_two_rows<Units>(t.probabilities_pairs + at, kTile, probability[0], probability[1]);
      put_two_rows<Units>(t.d_scores_pairs + at, kTile, d_score[0], d_score[1]);
    }
  }
}

// delta = sum(output * its gradient) per query: what the softmax's backward subtracts.
template <class T>
void row_statistics(const Head& head, int64_t tile, int64_t query_head, float* lse, float* delta) {
  const AttentionProblem& p = head.problem;
  const Rows<T> out = head.queries<T>(p.output, tile, query_head);
  const Rows<T> gradient = head.queries<T>(p.output_gradient, tile, query_head);
  const float* from = head.lse(tile, query_head);
  for (int64_t row = 0; row < head.computed_rows(tile); ++row) {
    F total = splat(0);
    for (int64_t i = 0; i < p.padded_dim(); i += kLanes)
      total += out.at(row, i) * gradient.at(row, i);
    delta[row] = sum(total);
    lse[row] = row < head.count(tile) ? from[row] : kInfinity;  // rows past the end: probability 0
  }
}

template <class Units, class T>
void attention_backward(const AttentionProblem& p, int64_t kv_head_index, int64_t part,
                        float* scratch) {
  const Head head(p, kv_head_index);
  const int64_t dim = p.padded_dim(), packed = Head::packed<Units>(p), tile_numel = kTile * dim;
  const int64_t dim_units = dim / Units::kPer, tile_units = kTile / Units::kPer;
  uint32_t* q_rows = reinterpret_cast<uint32_t*>(scratch);
  uint32_t* q_natural = q_rows + tile_numel;
  uint32_t* gradient_rows = q_natural + tile_numel;
  uint32_t* gradient_natural = gradient_rows + tile_numel;
  float* dq = scratch + 4 * tile_numel;
  float* tiles = dq + tile_numel;
  float* lse = tiles + 5 * kTile * kTile;
  float* delta = lse + kTile;
  ScoreTiles t{tiles, tiles + kTile * kTile, reinterpret_cast<uint32_t*>(tiles + 2 * kTile * kTile),
               reinterpret_cast<uint32_t*>(tiles + 3 * kTile * kTile),
               reinterpret_cast<uint32_t*>(tiles + 4 * kTile * kTile)};
  // The transposed left operand over queries; over keys the same tile in floats, a second copy in
  // pairs.
  const LeftOperand d_scores = Units::kPer == 1 ? LeftOperand{t.d_scores_pairs, kTile, 1}
                                                : LeftOperand{t.d_scores_rows, tile_units, 1};
  const int64_t part_at = (kv_head_index * p.parts + part) * p.key_tiles() * tile_numel;
  [[maybe_unused]] const typename Units::Session session{};
  for (int64_t tile = part; tile < p.tiles(); tile += p.parts) {
    const int64_t rows = head.computed_rows(tile);
    for (int64_t member = 0; member < head.group(); ++member) {
      const int64_t query_head = head.kv_head * head.group() + member;
      const Rows<T> q = head.queries<T>(p.q, tile, query_head);
      const Rows<T> gradient = head.queries<T>(p.output_gradient, tile, query_head);
      pack_rows<Units>(q, rows, q_rows);
      pack_queries<Units>(q, rows, q_natural);
      pack_rows<Units>(gradient, rows, gradient_rows);
      pack_queries<Units>(gradient, rows, gradient_natural);
      row_statistics<T>(head, tile, query_head, lse, delta);
      const int64_t first = head.first_key_tile(tile), end = head.end_key_tile(tile);
      if (first >= end) continue;  // dq has what other keys gave
      for (int64_t key_tile = first; key_tile < end; ++key_tile) {
        const int64_t at = (kv_head_index * p.key_tiles() + key_tile) * packed;
        float* dk = p.dk_parts + part_at + key_tile * tile_numel;
        float* dv = p.dv_parts + part_at + key_tile * tile_numel;
        const bool diagonal = head.diagonal(tile, key_tile);
        const auto over_head =
            diagonal ? multiply<Units, Need::kColumnsToRow> : multiply<Units, Need::kAll>;
        const auto over_keys =
            diagonal ? multiply<Units, Need::kUnitsToRow> : multiply<Units, Need::kAll>;
        const int64_t keys = diagonal ? rows : kTile;
        over_head({q_rows, dim_units, 1}, p.k_transposed + at, rows, kTile, dim_units, t.scores,
                  false);
        over_head({gradient_rows, dim_units, 1}, p.v_transposed + at, rows, kTile, dim_units,
                  t.d_probabilities, false);
        (p.drop_threshold > 0
             ? differentiate<Units, true>
             : differentiate<Units, false>)(head, query_head, tile, key_tile, lse, delta, t);
        add_over_queries<Units>(t.probabilities_pairs, gradient_natural, diagonal, keys, rows, dim,
                                dv);
        add_over_queries<Units>(t.d_scores_pairs, q_natural, diagonal, keys, rows, dim, dk);
        over_keys(d_scores, p.k_natural + at, rows, dim, tile_units, dq, key_tile > first);
      }
      if (p.adds) {
        write_queries<float>(head, p.dq, tile, query_head, dq);
      } else {
        write_queries<T>(head, p.dq, tile, query_head, dq);
      }
    }
  }
}

// Adds up the parts of the gradients of a tile of keys and values.
template <class Units, class T>
void attention_reduce(const AttentionProblem& p, int64_t kv_head_index, int64_t tile) {
  const Head head(p, kv_head_index);
  const int64_t tile_numel = kTile * p.padded_dim(), part_numel = p.key_tiles() * tile_numel;
  const int64_t at = kv_head_index * p.parts * part_numel + tile * tile_numel;
  float* const both[2] = {p.dk_parts + at, p.dv_parts + at};
  for (float* parts : both) {
    for (int64_t i = 0; i < tile_numel; i += kLanes) {
      F total = load(parts + i);
      for (int64_t part = 1; part < p.parts; ++part) total += load(parts + part * part_numel + i);
      store(parts + i, total);
    }
  }
  if (p.adds) {
    write_keys<Units, float>(head, p.dk, tile, p.dk_parts + at);
    write_keys<Units, float>(head, p.dv, tile, p.dv_parts + at);
  } else {
    write_keys<Units, T>(head, p.dk, tile, p.dk_parts + at);
    write_keys<Units, T>(head, p.dv, tile, p.dv_parts + at);
  }
}

template <class Units, class T>
constexpr AttentionKernels attention_kernels() {
  return {.pack = attention_pack<Units, T>,
          .forward = attention_forward<Units, T>,
          .backward = attention_backward<Units, T>,
          .reduce = attention_reduce<Units, T>};
}

}  // namespace sftbench::ops::SFTBENCH_ISA
