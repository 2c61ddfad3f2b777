// The dtype that matrix products really multiply in, and the library that computes them.
#pragma once

#include <torch/types.h>

#include <string>

namespace sftbench::ops {

// `dtype` itself, or float32 where the processor has no products of `dtype`: operands are widened
// then, and the result is rounded to `dtype` once.
torch::Dtype product_dtype(torch::Dtype dtype, const torch::Device& device);

// Of products of matrices of `dtype` on this processor: "sftbench" for our own kernels,
// "oneDNN 2.6.3", or "libtorch".
std::string product_library(torch::Dtype dtype);

}  // namespace sftbench::ops
