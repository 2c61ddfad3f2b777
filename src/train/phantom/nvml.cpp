// libnvidia-ml as the sampler uses it: devices that are idle, cold and as full as the allocator
// made them in this process.
#include <algorithm>
#include <cstdio>

#include "phantom/context.h"
#include "phantom/memory.h"
#include "phantom/settings.h"

using namespace sftbench::phantom;  // NOLINT: every function below is a name of NVIDIA's

namespace {

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};

int index_of(void* handle) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(handle)) - 1;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int) {
  return "phantom device";
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "phantom");
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(settings().count);
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index + 1));
  return 0;
}

int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::snprintf(text, length, "%s", settings().name.c_str());
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  std::snprintf(text, length, "%s", uuid_text(index_of(device)).c_str());
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, MemoryInfo* info) {
  info->total = static_cast<unsigned long long>(settings().memory_bytes);
  const std::vector<int>& visible = visible_devices();
  const auto found = std::find(visible.begin(), visible.end(), index_of(device));
  const auto number = static_cast<int>(found - visible.begin());
  info->used = found == visible.end() ? 0 : memory().used(number);
  info->free = info->total - info->used;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void*, Utilization* rates) {
  *rates = {0, 0};
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 0;
  return 0;
}

// What libtorch looks up to tell who else has memory of the device.
constexpr int kNotSupported = 3;
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
  *device = reinterpret_cast<void*>(uintptr_t{1});
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, void*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return kNotSupported;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}

int nvmlDeviceGetTemperature(void*, unsigned, unsigned* celsius) {
  *celsius = 0;
  return 0;
}

}  // extern "C"
