// 1 / (1 + exp(-x)) in float32, as the activations of all kernels compute it.
#pragma once

#include "ops/cuda/launch.h"

namespace sftbench::ops {

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

}  // namespace sftbench::ops
