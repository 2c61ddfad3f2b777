// The CUDA runtime (libcudart) as libtorch and this program use it: what devices there are, and
// what they can do. Signatures and meanings are those of cuda_runtime_api.h.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "phantom/context.h"
#include "phantom/graphs.h"
#include "phantom/limits.h"
#include "phantom/settings.h"
#include "phantom/streams.h"

namespace sftbench::phantom {
namespace {

constexpr int kVersion = 13000;
constexpr size_t kSharedMemory = size_t{48} << 10;

void fill(cudaDeviceProp& properties, int device) {
  std::memset(&properties, 0, sizeof properties);
  const Settings& gpu = settings();
  std::snprintf(properties.name, sizeof properties.name, "%s", gpu.name.c_str());
  std::memcpy(properties.uuid.bytes, "sftbench phantom", 16);
  properties.uuid.bytes[15] = static_cast<char>(visible_devices()[static_cast<size_t>(device)]);
  properties.totalGlobalMem = static_cast<size_t>(gpu.memory_bytes);
  properties.sharedMemPerBlock = kSharedMemory;
  properties.sharedMemPerBlockOptin = shared_memory_opt_in();
  properties.sharedMemPerMultiprocessor = shared_memory_opt_in() + 1024;
  properties.regsPerBlock = properties.regsPerMultiprocessor = 65536;
  properties.warpSize = 32;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsDim[0] = properties.maxThreadsDim[1] = 1024;
  properties.maxThreadsDim[2] = 64;
  properties.maxGridSize[0] = 2147483647;
  properties.maxGridSize[1] = properties.maxGridSize[2] = 65535;
  properties.major = gpu.major;
  properties.minor = gpu.minor;
  properties.multiProcessorCount = gpu.multiprocessors;
  properties.maxThreadsPerMultiProcessor = threads_per_multiprocessor();
  properties.maxBlocksPerMultiProcessor = 32;
  properties.l2CacheSize = 50 << 20;
  properties.pciBusID = visible_devices()[static_cast<size_t>(device)] + 1;
  properties.unifiedAddressing = properties.concurrentKernels = properties.cooperativeLaunch = 1;
  properties.canMapHostMemory = properties.streamPrioritiesSupported = 1;
  properties.asyncEngineCount = 2;
  properties.textureAlignment = 512;
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return set_current_device(device);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return noted(cudaErrorInvalidDevice);
  load_operators();
  fill(*properties, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  fill(properties, device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(properties.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = properties.maxGridSize[0];
      break;
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (capture().is_going_on()) {
    capture().break_off();
    return noted(cudaErrorStreamCaptureUnsupported);
  }
  streams().finish_all();
  count_synchronization();
  return device_state();
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

}  // extern "C"
