// What an implementation of SwiGLU and GEGLU gives, on tensors [rows, I]: y and its gradient are
// contiguous. The elements of a row of the others lie side by side, and their rows are equally far
// apart in all four.
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct GateAndUp {
  torch::Tensor gate, up;
};

// GELU by tanh is x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)): SiLU of another argument.
enum class GateForm { kSilu, kGeluTanh, kGeluError };

struct SwigluImpl {
  void (*forward)(const GateAndUp& in, GateForm form, const torch::Tensor& y);
  void (*backward)(const torch::Tensor& y_gradient, const GateAndUp& in, GateForm form,
                   const GateAndUp& into);
};

// The kernels know SiLU and GELU by tanh.
extern const SwigluImpl kSwigluCpu;
extern const SwigluImpl kSwigluCuda;  // in the CUDA flavor; not for float64
extern const SwigluImpl kSwigluAten;  // any device, dtype and form, from stock operators

}  // namespace sftbench::ops
