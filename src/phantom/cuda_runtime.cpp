// The CUDA runtime (libcudart) as libtorch and this program use it, over memory, streams and
// launches of the phantom device. Signatures and meanings are those of cuda_runtime_api.h.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "phantom/context.h"
#include "phantom/copies.h"
#include "phantom/launches.h"
#include "phantom/memory.h"
#include "phantom/settings.h"
#include "phantom/streams.h"

namespace sftbench::phantom {
namespace {

constexpr int kVersion = 13000;
constexpr size_t kSharedMemory = size_t{48} << 10;

Streams::Id id(cudaStream_t stream) {
  return reinterpret_cast<Streams::Id>(stream);
}
Stream& stream_of(cudaStream_t stream) {
  return streams().at(id(stream));
}
// What CUDA calls an event is the address of a shared one: a stream may still hold it.
using SharedEvent = std::shared_ptr<Event>;
SharedEvent& event_of(cudaEvent_t event) {
  return *reinterpret_cast<SharedEvent*>(event);
}

// Shared memory that a block may ask for, by compute capability (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability").
size_t shared_memory_opt_in() {
  const int capability = settings().major * 10 + settings().minor;
  if (capability >= 90) return size_t{227} << 10;
  if (capability == 80) return size_t{163} << 10;
  if (capability >= 86) return size_t{99} << 10;
  if (capability == 75) return size_t{64} << 10;
  return size_t{96} << 10;
}

int threads_per_multiprocessor() {
  const int capability = settings().major * 10 + settings().minor;
  if (capability == 75) return 1024;
  return capability == 86 || capability == 89 ? 1536 : 2048;
}

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

std::atomic<int64_t> synchronizations{0};

// What every call returns once the device is broken: the error does not go away.
cudaError_t device_state() {
  const int64_t broken_at = settings().illegal_access_at;
  const bool broken = broken_at > 0 && synchronizations >= broken_at;
  return broken ? noted(cudaErrorIllegalAddress) : cudaSuccess;
}

// libtorch is loaded by now, and has registered the kernels that these operators replace.
void load_operators() {
  static const bool loaded = [] {
    if (!settings().computes()) return true;
    if (dlopen(settings().operators.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return true;
    std::fprintf(stderr, "phantom device: %s\n", dlerror());
    std::_Exit(2);
  }();
  static_cast<void>(loaded);
}

// Operators that compute on the host never launch: a launch is a number that nobody would compute.
cudaError_t launch(const void* handle, cudaStream_t) {
  launches().count(handle);
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  if (!settings().computes()) return cudaSuccess;
  const char* const name = launches().name(handle);
  return noted(static_cast<cudaError_t>(unsupported(name != nullptr ? name : "an unknown kernel")));
}

}  // namespace
}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: every function below is a name of CUDA's

extern "C" {

// --- devices ---------------------------------------------------------------------------------------

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
  streams().finish_all();
  ++synchronizations;
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

// --- errors ----------------------------------------------------------------------------------------

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
    case cudaErrorNotSupported:
      return "operation not supported";
    default:
      return "unrecognized error code";
  }
}

// --- memory ----------------------------------------------------------------------------------------

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
  copy(to, from, bytes, id(stream));
  return cudaSuccess;
}

// The caller goes on when it is done, and the default stream waits for all others.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
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

// --- streams and events ----------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(streams().create());
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  streams().destroy(id(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream_of(stream).finish();
  return device_state();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream_of(stream).idle() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream_of(stream).wait(event_of(event));
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  stream_of(stream).put([=] { callback(stream, cudaSuccess, data); });
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long* capture, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  *status = cudaStreamCaptureStatusNone;
  if (capture != nullptr) *capture = 0;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode of_thread = cudaStreamCaptureModeGlobal;
  std::swap(of_thread, *mode);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new SharedEvent(std::make_shared<Event>()));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  stream_of(stream).record(event_of(event));
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event_of(event)->happened() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Stream::finish(*event_of(event));
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::chrono::duration<float, std::milli> elapsed =
      event_of(end)->time() - event_of(start)->time();
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

// --- kernels ---------------------------------------------------------------------------------------

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

// --- what the program asks the phantom itself ------------------------------------------------------

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
