// Helpers around the tensors of an optimizer's state.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sftbench/ops/adafactor.h"
#include "sftbench/optim/optimizer_state.h"

namespace sftbench {

inline int64_t bytes_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<int64_t>(tensor.element_size()) : 0;
}

inline int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

inline int64_t bytes_of(const ops::FactoredSquares& squares) {
  return bytes_of(squares.rows) + bytes_of(squares.columns) + bytes_of(squares.whole);
}

// `of_elements`: they are squares of the parameter itself, and not of a projection.
inline void visit_squares(OptimizerStateVisitor& visitor, const ops::FactoredSquares& squares,
                          bool of_elements = true) {
  if (squares.rows.defined()) {
    visitor.shaped("exp_avg_sq_row", squares.rows);
    visitor.shaped("exp_avg_sq_col", squares.columns);
  } else if (of_elements) {
    visitor.values("exp_avg_sq", squares.whole);
  } else {
    visitor.shaped("exp_avg_sq", squares.whole);
  }
}

// Zeros of the parameter's shape, contiguous; torch's optimizers keep its dtype, bitsandbytes' and
// apex's are float32 whatever the parameter is.
inline torch::Tensor state_like(const torch::Tensor& parameter, torch::Dtype dtype) {
  return torch::zeros(parameter.sizes(), parameter.options().dtype(dtype).requires_grad(false));
}
inline torch::Tensor state_like(const torch::Tensor& parameter) {
  return state_like(parameter, parameter.scalar_type());
}

}  // namespace sftbench
