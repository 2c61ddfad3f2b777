// The dtype that matrix products really multiply in.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// `dtype` itself, or float32 where the processor has no products of `dtype`: operands are widened
// then, and the result is rounded to `dtype` once.
torch::Dtype product_dtype(torch::Dtype dtype, const torch::Device& device);

}  // namespace sftbench::ops
