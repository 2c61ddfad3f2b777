// DoRA's magnitudes (Liu et al. 2024, arXiv 2402.09353). Training gives each row of a linear's
// weight a length, m:
//   y = m / |W + scale B A| * (W + scale B A) x + b
// The norms are those of rows. For gradients they are constants (section 4.3 of the paper, and
// peft's DoraLinearLayer).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>

#include "sftbench/ops/low_rank.h"

namespace sftbench::ops {

// Rows [first, first + count) of a weight [out, in], in any floating dtype. Both are multiples of
// 64, unless the rows end there.
using WeightRows = std::function<torch::Tensor(int64_t first, int64_t count)>;

// |W + scale B A| of each row, [out] in the dtype of the factors. Of W no more than a tile is there
// at a time.
torch::Tensor row_norms(const WeightRows& weight, const LowRankFactors& factors, double scale);

// rest + magnitude / norms * (t - b), a new tensor in t's dtype, where t [..., out] is (W + scale B
// A) x + b. magnitude, a leaf, and norms are [out], of one dtype, which may be wider than t's. bias
// b is [out] or undefined. rest has t's shape. Undefined, it is b. Differentiable in t, magnitude
// and rest. The backward pass keeps t.
torch::Tensor with_magnitude(const torch::Tensor& t, const torch::Tensor& magnitude,
                             const torch::Tensor& norms, const torch::Tensor& bias = {},
                             const torch::Tensor& rest = {});

}  // namespace sftbench::ops
