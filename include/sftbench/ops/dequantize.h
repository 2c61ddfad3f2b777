// Weights quantized with GPTQ, multiplied: they are dequantized tile by tile into a workspace of
// bounded size, and each tile goes into a GEMM while it is warm. Layout and formula stand in
// families/gptq.h. scale * (q - z) has fewer bits than float32 holds, so that every path computes
// it exactly and rounds it once, to the dtype that is asked for; in float16 that is, bit for bit,
// what GPTQModel's kernels give.
#pragma once

#include <cstdint>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// A linear's weight, in -> out, as files have it.
struct GptqWeight {
  int bits = 4;                // 2, 3, 4 or 8
  bool zeros_less_one = true;  // as checkpoint_format "gptq" stores them
  torch::Tensor qweight;       // [in * bits / 32, out] int32
  torch::Tensor qzeros;        // [groups, out * bits / 32] int32
  torch::Tensor scales;        // [groups, out] float16
  torch::Tensor g_idx;         // [in] int32, each in [0, groups)

  int64_t in_features() const { return g_idx.size(0); }
  int64_t out_features() const { return scales.size(1); }
};

// Features [begin, begin + count) of one side of a weight; both multiples of 32.
struct FeatureRange {
  int64_t begin, count;
};

// Part of W^T: [in.count, out.count] in `dtype` (float32, bfloat16, float16 or float64), into
// `target`, which is contiguous; or as a tensor of its own.
void dequantize_into(torch::Tensor target, const GptqWeight& weight, FeatureRange in,
                     FeatureRange out);
torch::Tensor dequantize(const GptqWeight& weight, torch::Dtype dtype);

// x [..., in], bias [out] of x's dtype or undefined -> x W^T + b, [..., out]: no view and kept by
// nobody, so that adapters add to it in place. Differentiable in x; keeps neither x nor anything of
// W that is dequantized.
torch::Tensor gptq_linear(const torch::Tensor& x, const GptqWeight& weight,
                          const torch::Tensor& bias = {});

// The dtype to compute in where the model's is float16. GPUs multiply float16 itself. CPUs of
// libtorch 1.13 have no such product; of the two that they have, bfloat16 keeps the range and gives
// up three of eleven bits, in activations and dequantized weights alike. It is taken where the
// processor multiplies it, as such a step is faster there (bench/results/training-step.md), float32
// elsewhere.
torch::Dtype float16_compute_dtype(const torch::Device& device);

// Elements of a weight that are dequantized at a time, at most (or 32 features of one side): 8 MiB
// of half precision on CPUs, where it should stay in the cache, 128 MiB on GPUs.
int64_t dequantize_workspace_numel(const torch::Device& device);

}  // namespace sftbench::ops
