// The CUDA runtime (libcudart) over launches of the phantom device: they are counted. Signatures
// and meanings are those of cuda_runtime_api.h.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "phantom/context.h"
#include "phantom/cupti.h"
#include "phantom/launches.h"
#include "phantom/limits.h"
#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

// Operators that compute on the host never launch: a launch is a number that nobody would compute.
cudaError_t launch(const void* handle, cudaStream_t) {
  launches().count_kernel(handle);
  note_activity(launches().name(handle));
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  if (!settings().computes()) return cudaSuccess;
  const char* const name = launches().name(handle);
  return noted(static_cast<cudaError_t>(unsupported(name != nullptr ? name : "an unknown kernel")));
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void**, const char* handle, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  launches().register_kernel(handle, name);
}

// A call kernel<<<grid, block>>>(...) pushes its shape, and what it calls pops it again.
namespace {
struct Configuration {
  dim3 grid, block;
  size_t shared_memory = 0;
  void* stream = nullptr;
};
thread_local Configuration pushed;
}  // namespace

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_memory, void* stream) {
  pushed = {grid, block, shared_memory, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_memory,
                                       void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_memory = pushed.shared_memory;
  *static_cast<void**>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* handle) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(handle));
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* handle, dim3, dim3, void**, size_t, cudaStream_t stream) {
  return launch(handle, stream);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, size_t,
                               cudaStream_t stream) {
  return launch(kernel, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* handle, dim3, dim3, void**, size_t,
                                        cudaStream_t stream) {
  return launch(handle, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* handle,
                                void**) {
  return launch(handle, configuration->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  // What libtorch compares with the device's, to know whether the kernel was compiled for it.
  attributes->binaryVersion = attributes->ptxVersion = settings().major * 10 + settings().minor;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(shared_memory_opt_in());
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int threads, size_t, unsigned) {
  *blocks = std::max(1, threads_per_multiprocessor() / std::max(1, threads));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* handle,
                                                          int threads, size_t shared_memory) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads,
                                                                shared_memory, 0);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = const_cast<void*>(symbol);
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}

// --- what the program asks the phantom itself ----------------------------------------------------

// The launches since the last call of sftbench_phantom_reset() as JSON; valid until the next call.
const char* sftbench_phantom_report() {
  static std::string text;
  text = launches().report();
  return text.c_str();
}

void sftbench_phantom_reset() {
  launches().reset();
}

}  // extern "C"
