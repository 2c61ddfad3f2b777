// The gated activation of SwiGLU (Shazeer 2020): silu(gate) * up.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// gate, up [..., I] of one dtype -> [..., I]. Differentiable in both; keeps the two inputs, not the product's parts.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

// The same of one tensor [..., 2 I], the gate before the up projection -> [..., I]. Neither half is copied, and the
// gradient is one tensor.
torch::Tensor swiglu(const torch::Tensor& gate_and_up);

}  // namespace sftbench::ops
