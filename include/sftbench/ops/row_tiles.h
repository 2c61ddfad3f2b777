// Work that each position does by itself (an MLP), on some positions at a time. What stands between its
// input and its result, several times as wide as the residual stream, exists for one tile only: the
// backward pass computes each tile again. Long rows need this more than others, because everything else
// that a checkpointed layer holds is as wide as the stream. As TiledMLP of Arctic's long-sequence
// training (Bekman et al. 2025, arXiv 2506.13996).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace sftbench::ops {

// [1, T, H] -> [1, T, H], each position by itself, computed in one of the two passes as in the other.
// It lives until the backward pass.
using PositionWise = std::function<torch::Tensor(const torch::Tensor&)>;

// run(x), x [B, S, H] -> [B, S, H], in `tiles` parts of B S positions; 1: run(x) itself. Keeps x alone
// for the backward pass. Gradients of parameters add up tile by tile, as over micro-batches.
// REQUIRES: the result is the last that a layer computes; a layer that runs again gets zeros
// (ops/recomputation.h).
torch::Tensor in_row_tiles(int64_t tiles, const torch::Tensor& x, const PositionWise& run);

// The tile that runs on this thread, so that each draws a dropout of its own; 0 elsewhere.
uint64_t current_row_tile();

// Whether gradients of parameters that come on this thread are of a tile that others follow.
bool more_row_tiles_follow();

}  // namespace sftbench::ops
