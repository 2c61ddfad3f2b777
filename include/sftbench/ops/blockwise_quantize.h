// Block-wise quantized tensors for optimizer state: a flattened tensor in blocks of 256 elements
// (the last may be short), each with a float32 scale and one code per element.
// Maps and rounding of the 8-bit form are those of bitsandbytes (Dettmers et al. 2022, 8-bit
// Optimizers via Block-wise Quantization; create_dynamic_map, kernels.cu), of the 4-bit form those
// of torchao (OptimState4bit: two codes per byte, even index in the high nibble).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

inline constexpr int64_t kQuantBlockNumel = 256;

enum class QuantMap { kSigned8, kUnsigned8, kSigned4, kUnsigned4 };

// The 256 or 16 values that codes stand for, in units of their block's scale, ascending.
const std::vector<float>& quant_map_values(QuantMap map);

// The code of x, a value in units of its scale, one element at a time: the definition that the
// kernels follow. 8 bits: the nearest value, found by bisection, whose last midpoint decides ties;
// a signed code keeps the sign of x (never 0 for x < 0), and NaN (0/0 of a block of zeros) becomes
// the code 255 (signed) or 0. 4 bits: the nearest value, a tie goes up.
uint8_t quantize_one(QuantMap map, float x);

struct QuantizedTensor {
  QuantMap map;
  torch::Tensor codes;   // uint8 [n], or [ceil(n / 2)] with 4 bits
  torch::Tensor scales;  // float32 [ceil(n / 256)]: the largest magnitude of each block
};

// Zeros in the form of a fresh state: all codes and scales 0, as both libraries begin.
QuantizedTensor zero_quantized(QuantMap map, int64_t numel, torch::Device device);

// REQUIRES: x float32 and contiguous. NaN counts as no magnitude. A scale is at least 1e-12 with 4
// bits.
QuantizedTensor quantize_blockwise(const torch::Tensor& x, QuantMap map);

// float32 [numel].
torch::Tensor dequantize_blockwise(const QuantizedTensor& x, int64_t numel);

}  // namespace sftbench::ops
