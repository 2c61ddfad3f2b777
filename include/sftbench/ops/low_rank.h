// LoRA's product (Hu et al. 2021): y_i += scale * drop(x) A_i^T B_i^T for linears that read the
// same x. The A_i are multiplied as one matrix, and B_i's product is added to y_i by the GEMM
// itself, so that an adapter costs neither a pass over y_i nor a temporary of its size. Backward
// keeps drop(x) and the products with A [rows, sum of ranks], nothing else.
//
// A and B may be wider than x (float32 beside bfloat16): they are rounded to x's dtype for the
// GEMM, as under torch.autocast, and their gradients are accumulated in their own.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sftbench::ops {

// Which elements of x an adapter does not see. A function of the seed and the element's place
// alone: a recomputed layer drops what it dropped the first time, and nothing is stored.
struct Dropout {
  double probability = 0;  // on CPUs rounded to a multiple of 2^-16, the scale with it
  uint64_t seed = 0;
};

// a [r, in], b [out, r], both leaves.
struct LowRankFactors {
  torch::Tensor a, b;
};

// x [..., in], y[i] [..., out_i] of x's dtype, no views and not saved by whoever made them ->
// y, written in place. Differentiable in x, y, a and b; gradients of a and b as
// grad_accumulation.h says.
std::vector<torch::Tensor> add_low_rank(const torch::Tensor& x, std::vector<torch::Tensor> y,
                                        const std::vector<LowRankFactors>& factors, double scale,
                                        const Dropout& dropout = {});

// x with the dropped elements zero and the others as they are; what is left has to be multiplied
// with kept_scale() to keep its expectation.
torch::Tensor zero_dropped(const torch::Tensor& x, const Dropout& dropout);
double kept_scale(const torch::Tensor& x, const Dropout& dropout);

}  // namespace sftbench::ops
