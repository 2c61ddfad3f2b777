// The CUDA runtime (libcudart) over memory of the phantom device: errors, memory and copies.
// Signatures and meanings are those of cuda_runtime_api.h.
#include <cuda_runtime_api.h>

#include <cstring>

#include "phantom/context.h"
#include "phantom/copies.h"
#include "phantom/graphs.h"
#include "phantom/memory.h"
#include "phantom/settings.h"
#include "phantom/streams.h"

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

// --- errors --------------------------------------------------------------------------------------

cudaError_t cudaGetLastError() {
  return last_error(true);
}
cudaError_t cudaPeekAtLastError() {
  return last_error(false);
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorNotSupported:
      return "operation not supported";
    default:
      return "unrecognized error code";
  }
}

// --- memory --------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  load_operators();
  *address = memory().allocate(bytes, current_device());
  return *address != nullptr ? cudaSuccess : noted(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* address) {
  if (address == nullptr) return cudaSuccess;
  streams().finish_all();  // as the real one does
  return memory().release(address) ? cudaSuccess : noted(cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  return cudaMalloc(address, bytes);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t) {
  return cudaFree(address);
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = memory().allocate_pinned(bytes);
  return *address != nullptr ? cudaSuccess : noted(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* address) {
  return cudaFree(address);
}
cudaError_t cudaHostRegister(void*, size_t, unsigned) {
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void*) {
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *total = static_cast<size_t>(settings().memory_bytes);
  *available = *total - memory().used(current_device());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  std::memset(attributes, 0, sizeof *attributes);
  const auto block = memory().find(address);
  const bool on_device = block && block->kind == Memory::Kind::kDevice;
  attributes->type = on_device ? cudaMemoryTypeDevice
                     : block   ? cudaMemoryTypeHost
                               : cudaMemoryTypeUnregistered;
  attributes->device = block ? block->device : -1;
  attributes->devicePointer = block ? const_cast<void*>(address) : nullptr;
  attributes->hostPointer = on_device ? nullptr : const_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  // A graph copies at each launch: from memory that the host may have given back by then, unless it
  // is pinned.
  if (capture().id_of(id(stream)) != 0 && !(memory().find(to) && memory().find(from))) {
    capture().break_off();
    return noted(cudaErrorStreamCaptureUnsupported);
  }
  copy(to, from, bytes, id(stream));
  return cudaSuccess;
}

// The caller goes on when it is done, and the default stream waits for all others.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (capture().is_going_on()) {
    capture().break_off();
    return noted(cudaErrorStreamCaptureUnsupported);
  }
  streams().finish_all();
  copy(to, from, bytes, 0);
  return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                cudaStream_t stream) {
  copy(to, from, bytes, id(stream));
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  for (size_t row = 0; row < height; ++row) {
    copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
         width, id(stream));
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  fill_bytes(address, value, bytes, id(stream));
  return cudaSuccess;
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  fill_bytes(address, value, bytes, 0);
  return cudaSuccess;
}

}  // extern "C"
