// What a CPU kernel of dequantize.h is given, and the table of them: one for each instruction set,
// chosen at run time. Knows nothing of threads or tensors.
#pragma once

#include <cstdint>

#include "ops/cpu/kernels.h"

namespace sftbench::ops {

inline constexpr int64_t kPackedCodes = 32;  // stand in `bits` words

// 32 input features, begun at a word, times a range of output features.
struct DequantizeTile {
  const uint32_t* codes;  // `bits` rows of words, `code_stride` apart
  int64_t code_stride;
  const int32_t* groups;  // of the 32 features
  // For each group and output feature; group 0's row, rows `table_stride` apart. Of the zeros
  // times the scales: w = q * scale - scaled_zero, exact in float32.
  const float *scales, *scaled_zeros;
  int64_t table_stride;
  void* out;  // [32, columns], rows `out_stride` apart
  int64_t out_stride;
  int64_t columns;  // a multiple of 32
};

using DequantizeLoop = void (*)(const DequantizeTile& tile);

// Whole blocks of NF4 (sftbench/ops/nf4.h), one behind the other.
struct Nf4Blocks {
  const uint8_t* codes;
  const float* absmax;
  const float* values;  // of the 16 codes
  int64_t count;
  void* out;  // [64 count]
};

using Nf4Loop = void (*)(const Nf4Blocks& blocks);

struct DequantizeKernels {
  DequantizeLoop loops[3][9];  // by CpuType and bits; null where there are no such bits
  Nf4Loop nf4[3];              // by CpuType
};

// Zero number `column` of a row of qzeros. Where zeros are stored less one, one is added to whole
// words: where a code is the largest, the sum carries into the next one, as GPTQModel's does (codes
// of 3 bits cross words and are added to one by one).
#ifdef __CUDACC__
__host__ __device__
#endif
    inline uint32_t
    zero_code(const uint32_t* row, int64_t column, int bits, bool less_one) {
  const uint32_t ones = !less_one   ? 0u
                        : bits == 2 ? 0x55555555u
                        : bits == 4 ? 0x11111111u
                        : bits == 8 ? 0x01010101u
                                    : 0u;
  const uint32_t mask = (1u << bits) - 1u;
  const int64_t bit = column * bits, word = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  uint32_t code = (row[word] + ones) >> shift;
  if (shift + bits > 32) code |= row[word + 1] << (32 - shift);  // 3 bits only
  if (less_one && bits == 3) code += 1;
  return code & mask;
}

}  // namespace sftbench::ops
