// Sums and largest values over the threads of a block, the same in all of them and in every run.
#pragma once

#include "ops/cuda/launch.h"

namespace sftbench::ops {

inline constexpr int kWarpThreads = 32;

struct Add {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

// NaN counts as nothing.
struct Maximum {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T v, Combine combine) {
#pragma unroll
  for (int lanes = kWarpThreads / 2; lanes > 0; lanes /= 2)
    v = combine(v, __shfl_xor_sync(0xffffffffu, v, lanes));
  return v;
}

// `scratch` has an element for each warp. The caller sees to a barrier before its next use.
template <int kThreads, class T, class Combine>
__device__ __forceinline__ T block_reduce(T v, T* scratch, Combine combine) {
  constexpr int kWarps = kThreads / kWarpThreads;
  v = warp_reduce(v, combine);
  if (threadIdx.x % kWarpThreads == 0) scratch[threadIdx.x / kWarpThreads] = v;
  __syncthreads();
  v = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) v = combine(v, scratch[warp]);
  return v;
}

}  // namespace sftbench::ops
