// MXFP4 (Open Compute Project, Microscaling Formats 1.0, 2023): blocks of 32 numbers of 4 bits
// share a power of two. How gpt-oss stores its experts' matrices.
#pragma once

#include <cstdint>

namespace sftbench {

inline constexpr int64_t kMxfp4Block = 32;       // numbers
inline constexpr int64_t kMxfp4BlockBytes = 16;  // two numbers in a byte, the first in its low half

// `blocks` blocks and one scale each -> 32 numbers each, exactly.
void decode_mxfp4(const uint8_t* codes, const uint8_t* scales, int64_t blocks, float* numbers);

}  // namespace sftbench
