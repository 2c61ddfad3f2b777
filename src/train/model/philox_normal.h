// Standard normal numbers that depend on nothing but a key and their place in its stream: Philox
// 4x32-10 (Salmon et al. 2011) and the Box-Muller transform. The same bits on every machine, thread
// count and instruction set.
#pragma once

#include <array>
#include <cstdint>

namespace sftbench {

// Numbers come in blocks of this many.
inline constexpr int64_t kNormalBlock = 256;

// out[i] = number `first + i` of the stream `key`, for i in [0, count).
// REQUIRES: first and count are multiples of kNormalBlock.
void fill_standard_normal(uint64_t key, uint64_t first, float* out, int64_t count);

// One Philox 4x32-10 block, for tests against the published vectors.
std::array<uint32_t, 4> philox4x32(const std::array<uint32_t, 4>& counter,
                                   const std::array<uint32_t, 2>& key);

}  // namespace sftbench
