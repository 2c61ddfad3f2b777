// The implementations behind blockwise_quantize.h and blockwise_update.h: tables, the loops of the
// CPU (compiled once per instruction set, blockwise_quantize_{baseline,avx2,avx512}.cpp), stock
// operators, and CUDA kernels. Arguments are checked.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/ops/blockwise_quantize.h"
#include "sftbench/ops/blockwise_update.h"

namespace sftbench::ops {

// A quantizer as one table look-up: sign, exponent and seven bits of the mantissa select an entry,
// which holds a code (bits 24-31) and the low bits (0-23) of the magnitude from which on it is the
// next one. For negative values codes count from the top, so that they rise with the magnitude.
struct QuantTables {
  static constexpr uint32_t kLowBits = 16;
  static constexpr uint32_t kFirstKey = (127 - 23) << (23 - kLowBits);  // 2^-23: below, one code
  static constexpr uint32_t kBuckets = (23 << (23 - kLowBits)) + 1;     // up to 1.0
  alignas(64) float values[256] = {};
  alignas(64) float boundaries[256] = {};  // the least x of each code but the first
  alignas(64) uint32_t entries[2 * kBuckets] = {};
  uint32_t top_code = 0, nan_code = 0;
};

const QuantTables& quant_tables(QuantMap map);
bool has_four_bits(QuantMap map);

// The least x of each code but the first: a code is the number of these that are not above x.
const std::vector<float>& quant_boundaries(QuantMap map);

inline constexpr size_t kMaxQuantizedStates = 3;

// A range of one tensor that begins at a block.
struct BlockwiseRange {
  void* parameter;
  const void* gradient;
  uint8_t* codes[kMaxQuantizedStates];
  float* scales[kMaxQuantizedStates];
  int64_t numel;
};

using BlockwiseLoop = void (*)(const BlockwiseRange& range, const RuleFactors<float>& factors);

struct BlockwiseKernels {
  // [dtype of the parameter: float32, bfloat16, float16]
  BlockwiseLoop update8[3][kUpdateRules];  // null: a rule without 8-bit states
  BlockwiseLoop update4[3];                // AdamW
  // Whole blocks, and a last one that may be short.
  void (*quantize8)(const float* x, uint8_t* codes, float* scales, int64_t numel,
                    const QuantTables& tables);
  void (*quantize4)(const float* x, uint8_t* codes, float* scales, int64_t numel,
                    const QuantTables& tables);
  void (*dequantize8)(const uint8_t* codes, const float* scales, float* x, int64_t numel,
                      const QuantTables& tables);
  void (*dequantize4)(const uint8_t* codes, const float* scales, float* x, int64_t numel,
                      const QuantTables& tables);
};

const BlockwiseKernels& blockwise_kernels();

void quantize_blockwise_aten(const torch::Tensor& x, const QuantizedTensor& into);
torch::Tensor dequantize_blockwise_aten(const QuantizedTensor& x, int64_t numel);
void blockwise_update_aten(UpdateRule rule, const BlockwiseTensor& tensor,
                           const RuleFactors<double>& factors);

// 8-bit states only; tensors contiguous on one device.
void blockwise_update_cuda(UpdateRule rule, const BlockwiseTensor& tensor,
                           const RuleFactors<float>& factors);

}  // namespace sftbench::ops
