#include "model/mxfp4.h"

#include <cmath>

namespace sftbench {
namespace {

// Sign, two bits of exponent, one of mantissa.
constexpr float kNumbers[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
constexpr int kScaleBias = 127;

}  // namespace

void decode_mxfp4(const uint8_t* codes, const uint8_t* scales, int64_t blocks, float* numbers) {
  for (int64_t block = 0; block < blocks; ++block) {
    const int exponent = static_cast<int>(scales[block]) - kScaleBias;
    for (int64_t i = 0; i < kMxfp4BlockBytes; ++i) {
      const uint8_t pair = codes[block * kMxfp4BlockBytes + i];
      float* to = numbers + block * kMxfp4Block + 2 * i;
      to[0] = std::ldexp(kNumbers[pair & 15], exponent);
      to[1] = std::ldexp(kNumbers[pair >> 4], exponent);
    }
  }
}

}  // namespace sftbench
