// A libnvidia-ml.so.1 for machines without NVIDIA's driver: as many devices as FAKE_NVML_GPUS lists
// product names (separated by ';'), with readings that follow from the device's number alone.
// The last device has no energy counter, as old boards have none. One named "lost" cannot be had,
// one named "mute" tells nothing of its memory, one named "empty" has none.
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kDriverNotLoaded = 9;
constexpr int kGpuIsLost = 15;

std::vector<std::string> names() {
  const char* list = std::getenv("FAKE_NVML_GPUS");
  std::vector<std::string> found;
  std::istringstream stream(list != nullptr ? list : "");
  for (std::string name; std::getline(stream, name, ';');) found.push_back(name);
  return found;
}

// Handles are device numbers, counted from 1 so that none is null.
size_t number(void* handle) {
  return reinterpret_cast<size_t>(handle) - 1;
}

int copy(const std::string& text, char* out, unsigned size) {
  if (text.size() + 1 > size) return kInvalidArgument;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return names().empty() ? kDriverNotLoaded : kSuccess;
}
int nvmlShutdown() {
  setenv("FAKE_NVML_ENDED", "yes", 1);
  return kSuccess;
}
const char* nvmlErrorString(int status) {
  return status == kDriverNotLoaded ? "Driver Not Loaded" : "another error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return copy("570.00", text, size);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(names().size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= names().size()) std::abort();  // its index is to be below the count
  if (names()[index] == "lost") return kGpuIsLost;
  *handle = reinterpret_cast<void*>(static_cast<size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetName(void* handle, char* text, unsigned size) {
  return copy(names()[number(handle)], text, size);
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  return copy("GPU-0" + std::to_string(number(handle)) + "-fake", text, size);
}
int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* total_free_used) {
  if (names()[number(handle)] == "mute") return kNotSupported;
  if (names()[number(handle)] == "empty") return kSuccess;  // the caller's zeros
  total_free_used[0] = 80ULL << 30;
  total_free_used[2] = (number(handle) + 1) * (20ULL << 30);
  total_free_used[1] = total_free_used[0] - total_free_used[2];
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* handle, unsigned* gpu_memory) {
  gpu_memory[0] = static_cast<unsigned>(50 + 10 * number(handle));
  gpu_memory[1] = 7;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = static_cast<unsigned>(350000 + 1500 * number(handle));
  return kSuccess;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700000;
  return kSuccess;
}
int nvmlDeviceGetTemperature(void*, unsigned sensor, unsigned* celsius) {
  if (sensor != 0) return kInvalidArgument;
  *celsius = 41;
  return kSuccess;
}
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* millijoules) {
  if (number(handle) + 1 == names().size()) return kNotSupported;
  *millijoules = 123456;
  return kSuccess;
}

}  // extern "C"
