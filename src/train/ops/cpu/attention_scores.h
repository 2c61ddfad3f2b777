// Which tiles of queries and keys attention computes, where they lie, and what is done to their
// scores before the softmax. See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/tile_products.h"
#include "ops/random_bits.h"

namespace sftbench::ops::SFTBENCH_ISA {

constexpr float kInfinity = __builtin_inff();

// Where one key/value head of one sequence lies.
struct Head {
  const AttentionProblem& problem;
  int64_t sequence, kv_head;

  Head(const AttentionProblem& p, int64_t kv_head_index)
      : problem(p), sequence(kv_head_index / p.kv_heads), kv_head(kv_head_index % p.kv_heads) {}

  int64_t group() const { return problem.heads / problem.kv_heads; }
  int64_t count(int64_t tile) const { return smaller(kTile, problem.length - tile * kTile); }
  int64_t key_count(int64_t key_tile) const {
    return smaller(kTile, problem.key_length - key_tile * kTile);
  }
  // Those of a tile of queries that are computed: the last tile may end early.
  int64_t computed_rows(int64_t tile) const { return round_up(count(tile), kBlockRows); }
  // Of a tile of queries, the key tiles that it sees: [first, end). None where the window ends
  // behind the keys.
  int64_t first_key_tile(int64_t tile) const {
    if (problem.window == 0) return 0;
    return larger(0, tile * kTile + problem.distance - problem.window + 1) / kTile;
  }
  int64_t end_key_tile(int64_t tile) const {
    return problem.distance == 0 ? tile + 1 : problem.key_tiles();
  }
  bool diagonal(int64_t tile, int64_t key_tile) const {
    return problem.distance == 0 && key_tile == tile;
  }
  // Whether a query of the tile does not see a key of the key tile.
  bool cuts(int64_t tile, int64_t key_tile) const {
    return diagonal(tile, key_tile) || key_count(key_tile) < kTile ||
           (problem.window != 0 &&
            (tile - key_tile + 1) * kTile + problem.distance > problem.window);
  }
  // Of a tensor [B, positions, heads, D] whose rows are `row` positions apart.
  int64_t offset(int64_t tile, int64_t row, int64_t heads, int64_t head) const {
    return ((sequence * row + tile * kTile) * heads + head) * problem.dim;
  }
  template <class T>
  Rows<T> queries(const void* tensor, int64_t tile, int64_t query_head) const {
    return {static_cast<const T*>(tensor) + offset(tile, problem.q_row, problem.heads, query_head),
            problem.heads * problem.dim, count(tile), problem.dim, problem.padded_dim()};
  }
  template <class T>
  Rows<T> keys(const void* tensor, int64_t key_tile) const {
    return {
        static_cast<const T*>(tensor) + offset(key_tile, problem.k_row, problem.kv_heads, kv_head),
        problem.kv_heads * problem.dim, key_count(key_tile), problem.dim, problem.padded_dim()};
  }
  float* lse(int64_t tile, int64_t query_head) const {
    return problem.lse + (sequence * problem.heads + query_head) * problem.lse_row + tile * kTile;
  }
  template <class Units>
  static int64_t packed(const AttentionProblem& p) {
    return kTile * p.padded_dim() / Units::kPer;  // units of a tile
  }
};

// Of the first `keys` of a tile, those that the query does not see get scores of -infinity.
SFTBENCH_INLINE void hide_keys(const AttentionProblem& p, int64_t query, int64_t key_tile,
                               int64_t keys, float* scores) {
  const int64_t own = query + p.distance - key_tile * kTile;
  const int64_t first = p.window == 0 ? 0 : own - p.window + 1;
  const int64_t end = smaller(own + 1, p.key_length - key_tile * kTile);
  for (int64_t j = 0; j < smaller(first, keys); ++j) scores[j] = -kInfinity;
  for (int64_t j = larger(end, 0); j < keys; ++j) scores[j] = -kInfinity;
}

// Of the first `keys` scores of a tile, which are scaled later.
SFTBENCH_INLINE void cap_scores(const AttentionProblem& p, int64_t keys, float* scores) {
  for (int64_t j = 0; j < keys; j += kLanes)
    store(scores + j, hyperbolic_tangent(load(scores + j) * (p.scale / p.cap)) * (p.cap / p.scale));
}

// The slope of a capped score by the score before its cap. 0 where the key is hidden.
SFTBENCH_INLINE F slope_of_cap(const AttentionProblem& p, F capped) {
  const F tangent = capped * (p.scale / p.cap);
  return maximum(1.0f - tangent * tangent, splat(0.0f));
}

// Adds ALiBi's term to the first `keys` scores of a tile, which are scaled later.
SFTBENCH_INLINE void lean_scores(const AttentionProblem& p, int64_t query_head, int64_t query,
                                 int64_t key_tile, int64_t keys, float* scores) {
  const float slope = p.slopes[query_head] / p.scale;
  F distance;
  for (int i = 0; i < kLanes; ++i)
    distance[i] = static_cast<float>(key_tile * kTile - query - p.distance + i);
  for (int64_t j = 0; j < keys; j += kLanes) {
    store(scores + j, load(scores + j) + (distance + static_cast<float>(j)) * slope);
  }
}

// What dropout multiplies the probabilities of one query with: 0, or the factor that keeps their
// expectation. Four neighboring keys share a random number (dropout_mask.h).
SFTBENCH_INLINE void keep_keys(const Head& head, int64_t query_head, int64_t query,
                               int64_t key_tile, float* kept) {
  constexpr int64_t kShare = 4, kWords = kTile / kShare + 1;
  const AttentionProblem& p = head.problem;
  const int64_t row =
      (head.sequence * p.heads + query_head) * p.row_length + p.first_position + query;
  const int64_t key = p.first_key + key_tile * kTile;
  const int64_t first = row * ((p.row_length + kShare - 1) / kShare) + key / kShare;
  uint64_t words[kWords];
  for (int64_t i = 0; i < kWords; ++i) {
    words[i] = random_bits(p.drop_seed, static_cast<uint64_t>(first + i));
  }
  uint16_t lanes[kWords * kShare];
  __builtin_memcpy(lanes, words, sizeof lanes);
  for (int64_t j = 0; j < kTile; ++j) {
    kept[j] = lanes[j + key % kShare] >= p.drop_threshold ? p.kept_scale : 0.0f;
  }
}

}  // namespace sftbench::ops::SFTBENCH_ISA
