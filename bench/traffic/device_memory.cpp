#include "device_memory.h"

#include <cuda_runtime_api.h>

namespace sftbench::traffic {

bool is_on_device(const void* address) {
  cudaPointerAttributes attributes = {};
  cudaPointerGetAttributes(&attributes, address);
  return attributes.type == cudaMemoryTypeDevice;
}

}  // namespace sftbench::traffic
