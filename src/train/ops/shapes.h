// Shapes and dtypes that most operators need: tensors seen as matrices, sums kept in a wide dtype.
#pragma once

#include <torch/types.h>

#include <vector>

namespace sftbench::ops {

// [..., n] as contiguous [rows, n]. Copies only what is not contiguous.
inline torch::Tensor rows(const torch::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)}).contiguous();
}

// The sizes of `tensor`, the last replaced by `last`.
inline std::vector<int64_t> with_last(const torch::Tensor& tensor, int64_t last) {
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.back() = last;
  return sizes;
}

// The dtype of intermediate values and sums: float32, and float64 for float64.
inline torch::Dtype wide_dtype(const torch::Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

}  // namespace sftbench::ops
