// LoRA's product (Hu et al. 2021): y_i += scale * drop(x) A_i^T B_i^T for linears that read the
// same x. The A_i are multiplied as one matrix, and B_i's product is added to y_i by the GEMM
// itself, so that an adapter costs neither a pass over y_i nor a temporary of its size. Backward
// keeps drop(x) and the products with A [rows, sum of ranks], nothing else.
//
// A and B may be wider than x (float32 beside bfloat16): they are rounded to x's dtype for the
// GEMM, as under torch.autocast, and their gradients are accumulated in their own.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sftbench/ops/dropout.h"
#include "sftbench/ops/linear.h"

namespace sftbench::ops {

// a [r, in], b [out, r], both leaves.
struct LowRankFactors {
  torch::Tensor a, b;
};

// x [..., in], y[i] [..., out_i] of x's dtype, no views and not saved by whoever made them ->
// y, written in place; what `dropout` takes from x, the adapters do not see. Differentiable in x,
// y, a and b; gradients of a and b as grad_accumulation.h says. silent [rows of x], bool: true
// where y stays as it is, and so gives x, a and b no gradient; undefined: nowhere.
std::vector<torch::Tensor> add_low_rank(const torch::Tensor& x, std::vector<torch::Tensor> y,
                                        const std::vector<LowRankFactors>& factors, double scale,
                                        const Dropout& dropout = {},
                                        const torch::Tensor& silent = {});

// Which of the linears the factors belong to.
struct LinearAdapter {
  size_t linear;
  LowRankFactors factors;
};

// linears() of linear.h, and add_low_rank() to the outputs of those that have an adapter, as one
// node: the products with frozen weights and with the A_i add up in x's gradient.
std::vector<torch::Tensor> adapted_linears(const torch::Tensor& x,
                                           const std::vector<LinearOperands>& linears,
                                           const std::vector<LinearAdapter>& adapters, double scale,
                                           const Dropout& dropout = {},
                                           const torch::Tensor& silent = {});

}  // namespace sftbench::ops
