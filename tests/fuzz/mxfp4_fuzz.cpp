// MXFP4 blocks: whatever the bytes, 32 numbers for each block and nothing beside them, each a
// number of the format times its block's power of two.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "model/mxfp4.h"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

// Sign, two bits of exponent (bias 1), one of mantissa; subnormal where the exponent is 0.
double number_of(unsigned code) {
  const int exponent = static_cast<int>(code >> 1 & 3);
  const double mantissa = (code & 1) / 2.0;
  const double size = exponent == 0 ? mantissa : std::ldexp(1 + mantissa, exponent - 1);
  return (code & 8) != 0 ? -size : size;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sftbench::kMxfp4Block;
  using sftbench::kMxfp4BlockBytes;
  const auto blocks = static_cast<int64_t>(size) / (kMxfp4BlockBytes + 1);
  const std::vector<uint8_t> scales(data, data + blocks);
  const std::vector<uint8_t> codes(data + blocks, data + blocks * (kMxfp4BlockBytes + 1));
  std::vector<float> numbers(static_cast<size_t>(blocks * kMxfp4Block));
  sftbench::decode_mxfp4(codes.data(), scales.data(), blocks, numbers.data());
  for (int64_t i = 0; i < blocks * kMxfp4Block; ++i) {
    const unsigned pair = codes[static_cast<size_t>(i / 2)];
    const double number = number_of(i % 2 == 0 ? pair & 15 : pair >> 4);
    const int exponent = static_cast<int>(scales[static_cast<size_t>(i / kMxfp4Block)]) - 127;
    require(numbers[static_cast<size_t>(i)] == static_cast<float>(std::ldexp(number, exponent)));
  }
  return 0;
}
