// What an implementation of SwiGLU gives, on tensors [rows, I]: y and its gradient are contiguous. The elements of a row
// of the others lie side by side, and their rows are equally far apart in all four.
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct GateAndUp {
  torch::Tensor gate, up;
};

struct SwigluImpl {
  void (*forward)(const GateAndUp& in, const torch::Tensor& y);
  void (*backward)(const torch::Tensor& y_gradient, const GateAndUp& in, const GateAndUp& into);
};

extern const SwigluImpl kSwigluCpu;
extern const SwigluImpl kSwigluCuda;  // in the CUDA flavor; not for float64
extern const SwigluImpl kSwigluAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
