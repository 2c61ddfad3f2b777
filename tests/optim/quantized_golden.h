// What quantized_test.cpp and galore_test.cpp share: the numbers of tests/reference/quantized.py,
// and its results.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/base/torch.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {

struct Hashed {
  torch::Tensor values;     // float32, multiples of 2^-16 in (-1, 1)
  torch::Tensor sixteenth;  // true for about one element in sixteen
};

inline Hashed hashed_numbers(uint64_t seed, const std::vector<int64_t>& shape) {
  const torch::Tensor values = torch::empty(shape);
  const torch::Tensor sixteenth = torch::empty(shape, torch::kBool);
  for (int64_t i = 0; i < values.numel(); ++i) {
    auto u = static_cast<uint32_t>(static_cast<uint64_t>(i) * 2654435761 + seed * 40503 + 12345);
    u ^= u >> 15;
    u *= 2246822519u;
    u ^= u >> 13;
    values.data_ptr<float>()[i] = (static_cast<float>(u % 65536) - 32767.5f) / 32768.0f;
    sixteenth.data_ptr<bool>()[i] = u >> 28 == 0;
  }
  return {values, sixteenth};
}

inline torch::Tensor golden_parameter(int index, const std::vector<int64_t>& shape) {
  const torch::Tensor values = hashed_numbers(1000 + index, shape).values;
  return values * values * values;
}

// Magnitudes of 0.125 to 1.
inline torch::Tensor golden_gradient(int index, const std::vector<int64_t>& shape, int step) {
  const torch::Tensor values = hashed_numbers(100 * index + step, shape).values;
  return (values.abs() * 0.875 + 0.125) * values.sign();
}

// Per tensor a string of hexadecimal digits, eight for a float32.
inline Json golden_of(const std::string& file, const std::string& optimizer) {
  return read_json_file(std::string(SFTBENCH_TEST_DATA) + "/optim/" + file).at(optimizer);
}

inline torch::Tensor floats_of(const std::string& digits) {
  std::vector<float> values(digits.size() / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<uint32_t>(std::stoul(digits.substr(8 * i, 8), nullptr, 16));
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return torch::tensor(values);
}

inline torch::Tensor every(int64_t stride, const torch::Tensor& tensor) {
  return tensor.detach().reshape({-1}).slice(0, 0, tensor.numel(), stride);
}

}  // namespace sftbench
