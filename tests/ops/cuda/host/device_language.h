// The words of CUDA that kernels of this program use, for a C++ compiler. Included by
// ops/cuda/launch.h where the compiler is not nvcc.
#pragma once

#include <math.h>

#include <cstring>

#include "ops/cuda/host/runner.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

namespace sftbench::ops::host {

template <class T>
T exchange(WarpOperation operation, unsigned mask, int operand, int source, T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(operation, mask, operand, source, bits);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline int lane() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
                          32);
}

}  // namespace sftbench::ops::host

inline void __syncthreads() {
  sftbench::ops::host::wait_for_block();
}

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  namespace host = sftbench::ops::host;
  host::exchange(host::WarpOperation::kSync, mask, 0, 0, uint64_t{0});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  namespace host = sftbench::ops::host;
  return host::exchange(host::WarpOperation::kXor, mask, lanes, host::lane() ^ lanes, value);
}

// A lane beyond the last keeps its own value.
template <class T>
T __shfl_down_sync(unsigned mask, T value, int lanes) {
  namespace host = sftbench::ops::host;
  const int source = host::lane() + lanes < 32 ? host::lane() + lanes : host::lane();
  return host::exchange(host::WarpOperation::kDown, mask, lanes, source, value);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  namespace host = sftbench::ops::host;
  return host::exchange(host::WarpOperation::kFrom, mask, 0, source, value);
}

// Blocks run one after another, and threads switch at barriers only.
template <class T>
T atomicAdd(T* target, T value) {
  const T before = *target;
  *target = before + value;
  return before;
}

inline float __fsqrt_rn(float v) {
  return sqrtf(v);
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
