#include "ops/cuda/launch.h"
#include "sftbench/ops/device_code.h"

namespace sftbench::ops {
namespace {

[[maybe_unused]] __global__ void nothing() {}

}  // namespace

bool has_device_code() {
#ifdef __CUDACC__
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, nothing);
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();  // it was a question
  return error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction;
#else
  return true;
#endif
}

}  // namespace sftbench::ops
