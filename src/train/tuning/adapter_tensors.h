// What adapters have in common, whatever they adapt.
#pragma once

#include <string>

#include "sftbench/base/digest.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

// Trained tensors beside half-precision weights are float32: updates of 1e-5 would be rounded away
// in bfloat16.
inline torch::TensorOptions adapter_options(CausalLm& model) {
  const torch::Tensor& weight = model.embedding();
  const bool half = weight.element_size() < 4;
  return torch::TensorOptions()
      .device(weight.device())
      .dtype(half ? torch::kFloat32 : weight.scalar_type());
}

// A stream of random numbers that depends on the run's seed and on what it is for, alone.
inline uint64_t stream_seed(uint64_t seed, const std::string& name) {
  return std::stoull(digest(std::to_string(seed) + ":" + name).substr(0, 16), nullptr, 16);
}

// Drawn on the CPU, also for other devices, so that they start from the same values.
inline at::Generator cpu_generator(uint64_t seed, const std::string& name) {
  at::Generator generator = at::globalContext().defaultGenerator(at::Device(at::kCPU)).clone();
  generator.set_current_seed(stream_seed(seed, name));
  return generator;
}

}  // namespace sftbench
