// The state-space scan of Mamba-2 by matrix products (SSD; Dao and Gu 2024, section 6): per head a
// state of N x P numbers that decays and grows from position to position. Positions are taken in
// chunks: within a chunk a masked product like attention's, from chunk to chunk the state alone.
// Linear in the length.
#pragma once

#include <torch/types.h>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

// x [B, S, H, P]; dt [B, S, H], the step sizes after softplus and limits; a [H], negative:
// -exp(A_log); b, c [B, S, G, N] with G dividing H: head h reads group h / (H / G); d [H] -> y [B,
// S, H, P] with
//   state_t = exp(dt_t a) state_(t-1) + dt_t b_t x_t^T  [N, P]  and  y_t = state_t^T c_t + d x_t.
// x, b and c are of one dtype, dt, a and d of that or float32. Heads and what they hold must lie
// side by side, positions may be farther apart: slices of the convolution's result are read where
// they lie. States, decays and sums are float32 at least, y is rounded once. On CPUs the dtype of x
// is for storage only. On GPUs products round their operands to it, as mamba_ssm's kernels do, and
// sum in float32. The state is 0 before each sequence of a packed row. Differentiable in all six.
// Keeps them and the state at the start of each chunk of 128 positions, in float32. REQUIRES, with
// packed sequences: B == 1.
torch::Tensor state_space_scan(const torch::Tensor& x, const torch::Tensor& dt,
                               const torch::Tensor& a, const torch::Tensor& b,
                               const torch::Tensor& c, const torch::Tensor& d,
                               const PackedSequences& packed = {});

}  // namespace sftbench::ops
