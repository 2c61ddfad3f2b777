// GELU (Hendrycks & Gimpel 2016), computed in float32 and rounded once: on CPUs libtorch 1.13
// rounds in between.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// kError: x Phi(x) by the error function. kTanh: its approximation by tanh, Hugging Face's
// gelu_new, gelu_pytorch_tanh and BloomGelu.
enum class Gelu { kError, kTanh };

// Any shape, same dtype. Differentiable. Keeps x.
torch::Tensor gelu(const torch::Tensor& x, Gelu form);

}  // namespace sftbench::ops
