// The products of all experts as one launch, where libtorch has a kernel for it (at::_grouped_mm):
// bfloat16, on GPUs of compute capability 9 and 10. Elsewhere each expert's product is a launch of
// its own (grouped_linear.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// rows [T, in] or [T, out], matrices [E, out, in] or [E, in, out]: whether these products can be
// had, and those of the gradients.
bool has_grouped_products(const torch::Tensor& rows, const torch::Tensor& matrices);

// Where the rows of each expert end, [E] int32 on `device`: the offsets but for the first.
torch::Tensor ends_of_experts(const std::vector<int64_t>& offsets, const torch::Device& device);

// rows [T, n], matrices [E, n, m], of which each may be the transpose of a dense one -> [T, m].
torch::Tensor grouped_rows(const torch::Tensor& rows, const torch::Tensor& matrices,
                           const torch::Tensor& ends);

// left [T, n], right [T, m] -> left^T right over the rows of each expert, [E, n, m]; undefined
// values where an expert has none.
torch::Tensor grouped_matrices(const torch::Tensor& left, const torch::Tensor& right,
                               const torch::Tensor& ends);

// bias [E, m] is added to y [T, m], in place.
void add_expert_bias(const torch::Tensor& y, const torch::Tensor& bias, const torch::Tensor& ends);
// In the CUDA flavor. Of one dtype that kernels are made for, contiguous.
void add_expert_bias_cuda(const torch::Tensor& y, const torch::Tensor& bias,
                          const torch::Tensor& ends);

}  // namespace sftbench::ops
