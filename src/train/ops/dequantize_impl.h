// The paths of dequantize.h. Letters: I input features, O output features, G groups.
#pragma once

#include <cstdint>

#include "ops/dequantize_tile.h"
#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/nf4.h"
#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// By instruction set.
namespace baseline {
extern const DequantizeKernels kDequantizeKernels;
}
namespace avx2 {
extern const DequantizeKernels kDequantizeKernels;
}
namespace avx512 {
extern const DequantizeKernels kDequantizeKernels;
}
namespace avx512_bf16 {
extern const DequantizeKernels kDequantizeKernels;
}

const DequantizeKernels& dequantize_kernels();  // of this processor

void dequantize_aten(torch::Tensor& target, const GptqWeight& weight, FeatureRange in,
                     FeatureRange out);
// absmax [blocks] float32: the magnitudes of the weight's blocks.
void dequantize_nf4_aten(torch::Tensor& target, const Nf4Weight& weight,
                         const torch::Tensor& absmax, FeatureRange out, FeatureRange in);
// Of the CUDA flavor, and of docs/internals/kernels.md.
void dequantize_cuda(torch::Tensor& target, const GptqWeight& weight, FeatureRange in,
                     FeatureRange out);
void dequantize_nf4_cuda(torch::Tensor& target, const Nf4Weight& weight,
                         const torch::Tensor& absmax, FeatureRange out, FeatureRange in);

}  // namespace sftbench::ops
