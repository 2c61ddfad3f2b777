// The gated activations SwiGLU and GEGLU (Shazeer 2020): silu(gate) * up and gelu(gate) * up,
// computed in float32 and rounded once.
#pragma once

#include <torch/types.h>

#include "sftbench/ops/gelu.h"

namespace sftbench::ops {

// gate, up [..., I] of one dtype -> [..., I]. Differentiable in both; keeps the two inputs, not the
// product's parts.
torch::Tensor swiglu(const torch::Tensor& gate, const torch::Tensor& up);

// The same of one tensor [..., 2 I], the gate before the up projection -> [..., I]. Neither half is
// copied, and the gradient is one tensor.
torch::Tensor swiglu(const torch::Tensor& gate_and_up);

// As swiglu(), with GELU in the place of SiLU. The form by the error function has stock operators
// alone.
torch::Tensor geglu(const torch::Tensor& gate, const torch::Tensor& up, Gelu form);
torch::Tensor geglu(const torch::Tensor& gate_and_up, Gelu form);

}  // namespace sftbench::ops
