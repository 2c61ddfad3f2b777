// The gated activation of SwiGLU (Shazeer 2020): silu(gate) * up.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// gate, up [..., I] of one dtype -> [..., I]. Differentiable in both; keeps the two inputs, not the product's parts.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

}  // namespace sftbench::ops
