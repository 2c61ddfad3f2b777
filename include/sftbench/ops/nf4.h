// Weights in NF4 (Dettmers et al. 2023, QLoRA, arXiv 2305.14314), as bitsandbytes has them: a
// flattened weight in blocks of 64 elements, each element one of 16 values times the largest
// magnitude of its block. Under double quantization those magnitudes, less their mean, are in 8
// bits themselves (ops/blockwise_quantize.h). An element takes 0.516 bytes, or 0.5625 without.
#pragma once

#include <array>
#include <cstdint>

#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

inline constexpr int64_t kNf4Block = 64;

// bitsandbytes' (functional.py, get_4bit_type), ascending.
inline constexpr std::array<float, 16> kNf4Values = {-1.0f,
                                                     -0.6961928009986877f,
                                                     -0.5250730514526367f,
                                                     -0.39491748809814453f,
                                                     -0.28444138169288635f,
                                                     -0.18477343022823334f,
                                                     -0.09105003625154495f,
                                                     0.0f,
                                                     0.07958029955625534f,
                                                     0.16093020141124725f,
                                                     0.24611230194568634f,
                                                     0.33791524171829224f,
                                                     0.44070982933044434f,
                                                     0.5626170039176941f,
                                                     0.7229568362236023f,
                                                     1.0f};

struct Nf4Weight {
  int64_t out = 0, in = 0;
  torch::Tensor codes;   // [ceil(out in / 2)] uint8; of two codes the first in the upper half
  torch::Tensor absmax;  // [ceil(out in / 64)] of blocks: float32 magnitudes, or uint8 codes
  // Of such codes, undefined without them:
  torch::Tensor nested_absmax;  // [ceil(out in / 64 / 256)] float32: their scales
  torch::Tensor nested_offset;  // [1] float32: the mean

  bool is_nested() const { return nested_absmax.defined(); }
  int64_t in_features() const { return in; }
  int64_t out_features() const { return out; }
};

// Room for a weight of `out` to `in` features, uninitialized.
Nf4Weight empty_nf4(int64_t out_features, int64_t in_features, bool double_quantized,
                    const torch::Device& device);

// Fills it with what is nearest to `weight` [out, in], which is on the CPU, in float32, bfloat16 or
// float16.
void nf4_quantize(const torch::Tensor& weight, Nf4Weight& into);

// Part of W: [out.count, in.count] in `dtype` (float32, bfloat16, float16 or float64), into
// `target`, which is contiguous; or as a tensor of its own. A product in float32, rounded once.
void dequantize_into(torch::Tensor target, const Nf4Weight& weight, FeatureRange out,
                     FeatureRange in);
torch::Tensor dequantize(const Nf4Weight& weight, torch::Dtype dtype);

// As gptq_linear(): x [..., in], bias [out] of x's dtype or undefined -> x W^T + b, [..., out].
torch::Tensor nf4_linear(const torch::Tensor& x, const Nf4Weight& weight,
                         const torch::Tensor& bias = {});

}  // namespace sftbench::ops
