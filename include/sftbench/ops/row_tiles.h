// An MLP, which computes each position by itself, on some positions at a time: a tile. The values
// between its input and its result are several times as wide as the residual stream. They exist for
// one tile, and the backward pass computes each tile again. This is the TiledMLP of Arctic Long
// Sequence Training (Bekman et al. 2025, arXiv 2506.13996).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace sftbench::ops {

// [1, T, H] -> [1, T, H]. Called for each tile in the forward pass and once more in the backward
// pass, where it must compute the same. What it refers to lives until then.
using PositionWise = std::function<torch::Tensor(const torch::Tensor&)>;

// run(x), x [B, S, H] -> [B, S, H], in `tiles` parts of the B S positions. One tile is run(x)
// itself. Keeps x alone for the backward pass. Gradients of parameters add up tile by tile, as they
// do over micro-batches. REQUIRES: the result is the last that a layer computes; a layer that runs
// again gets zeros (ops/recomputation.h).
torch::Tensor in_row_tiles(int64_t tiles, const torch::Tensor& x, const PositionWise& run);

// The number of the tile that runs on this thread; 0 outside of tiles. Dropout draws by it.
uint64_t current_row_tile();

// The first of its rows among those of all tiles; 0 outside of tiles.
int64_t first_row_of_tile();

// Whether this thread computes a tile that is not the last: gradients of parameters are not whole
// yet.
bool more_row_tiles_follow();

}  // namespace sftbench::ops
