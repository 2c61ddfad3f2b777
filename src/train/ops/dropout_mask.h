// The random numbers behind Dropout: SplitMix64's finalizer (Steele, Lea & Flood 2014) of the
// number of a block of four elements gives each of them 16 random bits; an element whose bits are
// below the threshold is dropped.
//
// Attention numbers its blocks so that a tile knows them: query i of head h of row b has the number
// (b * H + h) * S + i among all of a call, ceil(S / 4) blocks, and four neighboring keys share one.
// The sequences of a packed row lie in a row of S positions: their queries count from its
// beginning, their keys from their own.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sftbench/ops/dropout.h"

namespace sftbench::ops {

// std::invalid_argument, naming the operator, unless it is in [0, 1).
void require_probability(const Dropout& dropout, const char* op);

constexpr int64_t kDropoutLanes = 4;  // elements that one random number decides
constexpr double kDropoutSteps = 65536.0;

inline uint16_t drop_threshold(double probability) {
  return static_cast<uint16_t>(std::min<int64_t>(std::llround(probability * kDropoutSteps), 65535));
}

inline double kept_scale_of(uint16_t threshold) {
  return 1.0 / (1.0 - static_cast<double>(threshold) / kDropoutSteps);
}

// Where the queries and keys of a tile stand.
struct DropoutTile {
  int64_t batch, heads, row_length;        // B, H, S of the call
  int64_t first_position;                  // of the sequence in its row
  int64_t q_begin, q_end, k_begin, k_end;  // in the sequence
};

// [B, H, queries, keys] of `options`: 0 where the key is dropped, else the factor that keeps the
// expectation. Stock operators on any device, for the same choice as the CPU kernels'.
torch::Tensor kept_keys(const Dropout& dropout, const DropoutTile& tile,
                        const torch::TensorOptions& options);

}  // namespace sftbench::ops
