// The device that tests of tensors run on: SFTBENCH_TEST_DEVICE ("cpu" when it is not set, or
// "cuda"), made ready as the engine does. Inputs are always drawn on the CPU, so that every device
// is given the same numbers.
#pragma once

#include <cstdlib>

#include "sftbench/base/torch.h"
#include "sftbench/ops/vector_math.h"

namespace sftbench {

inline torch::Device test_device() {
  [[maybe_unused]] static const bool settled = (ops::settle_vector_math(), true);
  const char* name = std::getenv("SFTBENCH_TEST_DEVICE");
  return {name == nullptr ? "cpu" : name};
}

}  // namespace sftbench
