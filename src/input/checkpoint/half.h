// bfloat16 and float16 as float32 and back, rounded to the nearest, ties to even. Loops over plain
// arrays.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sftbench {

inline float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN stays NaN
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1F,
                 fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude =
      std::ldexp(static_cast<float>(fraction), -24);  // zero and subnormal numbers
  return sign == 0 ? magnitude : -magnitude;
}

inline uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;
  if (magnitude >= 0x477FF000) return sign | 0x7C00;  // rounds to 65536 or beyond: infinite
  if (magnitude < 0x38800000) {  // below the least normal number: counted in its last place
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(
                                            std::ldexp(std::bit_cast<float>(magnitude), 24))));
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13));
}

}  // namespace sftbench
