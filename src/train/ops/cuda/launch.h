// What a kernel's file includes, whichever compiler reads it. nvcc makes kernels of it, a C++
// compiler functions that ops/cuda/host/runner.h runs on the CPU: docs/internals/kernels.md.
// Kernels keep to plain loads and stores, shuffles of whole warps, and barriers of whole blocks.
#pragma once

#include <tuple>
#include <utility>

#include "sftbench/ops/tensor.h"

#ifdef __CUDACC__
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

// SFTBENCH_BLOCK_SHARED(float, scratch, [8][32]): a variable of the block.
#define SFTBENCH_BLOCK_SHARED(type, name, extents) __shared__ type name extents
#else
#include "ops/cuda/host/device_language.h"

#define SFTBENCH_BLOCK_SHARED(type, name, extents) \
  auto& name = ::sftbench::ops::host::shared<type extents>([] {})
#endif

namespace sftbench::ops {

struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;  // of dynamic_shared()
};

#ifdef __CUDACC__

// Makes the tensor's device the current one.
class DeviceScope {
 public:
  explicit DeviceScope(const torch::Tensor& tensor) : guard_(tensor.device()) {}

 private:
  c10::cuda::CUDAGuard guard_;
};

inline int multiprocessors() {
  return at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
}

// Queues a kernel on the current stream.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape,
                   Arguments&&... arguments) {
  kernel<<<shape.grid, shape.block, shape.shared_bytes, at::cuda::getCurrentCUDAStream()>>>(
      std::forward<Arguments>(arguments)...);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

#else

class DeviceScope {
 public:
  explicit DeviceScope(const torch::Tensor&) {}
};

inline int multiprocessors() {
  return host::settings().multiprocessors;
}

template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), const LaunchShape& shape,
                   Arguments&&... arguments) {
  const auto run = [kernel, shape, values = std::tuple<Parameters...>(arguments...)] {
    const auto launch = [&] {
      host::run(shape.grid, shape.block, shape.shared_bytes, [&] { std::apply(kernel, values); });
    };
    const auto& around = host::settings().around;
    around ? around(reinterpret_cast<const void*>(kernel), launch) : launch();
  };
  host::settings().submit ? host::settings().submit(run) : run();
}

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(host::dynamic_shared_memory());
}

#endif

}  // namespace sftbench::ops
