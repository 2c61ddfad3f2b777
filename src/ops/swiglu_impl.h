// What an implementation of SwiGLU gives, on contiguous tensors.
#pragma once

#include <utility>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct SwigluImpl {
  torch::Tensor (*forward)(const torch::Tensor& gate, const torch::Tensor& up);
  // {gradient of gate, gradient of up}
  std::pair<torch::Tensor, torch::Tensor> (*backward)(const torch::Tensor& y_gradient,
                                                      const torch::Tensor& gate,
                                                      const torch::Tensor& up);
};

extern const SwigluImpl kSwigluCpu;
extern const SwigluImpl kSwigluCuda;  // in the CUDA flavor; not for float64
extern const SwigluImpl kSwigluAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
