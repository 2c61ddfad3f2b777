// Dropout over a tensor on GPUs.
#pragma once

#include <cstdint>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// kept is x where an element's 16 random bits (dropout_mask.h) are not below `threshold`, else 0.
// Contiguous tensors of one dtype with elements of 2, 4 or 8 bytes. In the CUDA flavor.
void zero_dropped_cuda(const torch::Tensor& x, const torch::Tensor& kept, uint16_t threshold,
                       uint64_t seed);

}  // namespace sftbench::ops
