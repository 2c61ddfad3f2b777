// Weights by the rule of tests/reference/drawn.py, so that no file has to hold them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

// zlib's.
inline uint32_t crc32(const std::string& text) {
  uint32_t crc = ~uint32_t{0};
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// [count] float64, from -1/2 to 1/2, of 24 bits each.
inline torch::Tensor drawn_values(const std::string& name, int64_t count) {
  const uint32_t first = crc32(name);
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = static_cast<uint32_t>(i) * 0x9E3779B1u + first;
    bits = (bits ^ bits >> 16) * 0x85EBCA6Bu;
    bits = (bits ^ bits >> 13) * 0xC2B2AE35u;
    bits ^= bits >> 16;
    values[i] = static_cast<double>(bits >> 8) / (1 << 24) - 0.5;
  }
  return torch::tensor(values, torch::kFloat64);
}

inline void draw_weights(CausalLm& model) {
  const torch::NoGradGuard no_grad;
  const double factor = 4 * model.config().initializer_range;
  for (const NamedParameter& parameter : model.parameters()) {
    torch::Tensor& tensor = *parameter.tensor;
    const torch::Tensor values = drawn_values(parameter.name, tensor.numel()).view(tensor.sizes());
    const double start = parameter.start == ParameterStart::kOnes ? 1 : 0;
    // Checkpoints are in float32.
    tensor.copy_((tensor.dim() > 1 ? values * factor : start + values / 2).to(torch::kFloat32));
  }
}

}  // namespace sftbench
