// The update rules (ops/update_rules.h) for one element in a kernel.
#pragma once

#include "ops/cuda/launch.h"

#define SFTBENCH_ISA cuda
#define SFTBENCH_RULE static __device__ __forceinline__ void
namespace sftbench::ops::cuda {
__device__ __forceinline__ float square_root(float v) {
  return __fsqrt_rn(v);
}
__device__ __forceinline__ float sign_of(float v) {
  return v > 0.0f ? 1.0f : (v < 0.0f ? -1.0f : 0.0f);
}
}  // namespace sftbench::ops::cuda
#include "ops/update_rules.h"
