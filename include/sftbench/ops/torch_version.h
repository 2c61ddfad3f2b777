// What differs between libtorch 1.13 (Debian, CPU) and 2.x (PyTorch wheels, CUDA): here and nowhere
// else.
#pragma once

#include <torch/types.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#define SFTBENCH_TORCH_2 1
#else
#define SFTBENCH_TORCH_2 0
#endif

namespace sftbench::ops {

#if SFTBENCH_TORCH_2
using OptionalTensor = std::optional<torch::Tensor>;
#else
using OptionalTensor = c10::optional<torch::Tensor>;
#endif

}  // namespace sftbench::ops
