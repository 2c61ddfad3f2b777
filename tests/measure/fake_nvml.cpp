// A libnvidia-ml.so.1 for machines without NVIDIA's driver: as many devices as FAKE_NVML_GPUS lists
// product names (separated by ';'), with readings that follow from the device's number alone.
// The last device has no energy counter, as old boards have none.
//
// FAKE_NVML_LINKS says how they are connected: "switch" (each has 18 NVLinks to switches), "direct" (two
// to the neighbor in its pair, one to the same device of the other pair), "pcie" (no NVLink, and no
// peer access between halves of the machine), else nothing can be told. Compiled with FAKE_NVML_OLD, it
// lacks all functions of the topology, as an old driver's does.
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

#ifndef FAKE_NVML_OLD

// nvmlPciInfo_t
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};

PciInfo at(unsigned bus) {
  PciInfo info{};
  info.bus = bus;
  return info;
}

std::string links() {
  const char* kind = std::getenv("FAKE_NVML_LINKS");
  return kind != nullptr ? kind : "";
}

// Under "direct".
size_t direct_links(size_t i, size_t j) {
  if (links() != "direct" || i == j || i >= names().size() || j >= names().size()) return 0;
  if (i / 2 == j / 2) return 2;
  return i % 2 == j % 2 && i / 4 == j / 4 ? 1 : 0;
}

// The device at the end of a link; none: nothing is there.
std::vector<size_t> ends_of(size_t device, unsigned link) {
  std::vector<size_t> ends;
  for (size_t other = 0; other < names().size(); ++other) {
    ends.insert(ends.end(), direct_links(device, other), other);
  }
  if (link >= ends.size()) return {};
  return {ends[link]};
}

#endif

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return names().empty() ? kDriverNotLoaded : kSuccess;
}
int nvmlShutdown() {
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
  if (index >= names().size()) return kInvalidArgument;
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

#ifndef FAKE_NVML_OLD

int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  *info = at(0x10 + static_cast<unsigned>(number(handle)));
  return kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(void* one, void* other, int* level) {
  if (links() == "") return kNotSupported;
  const size_t i = number(one), j = number(other);
  constexpr int kSingleSwitch = 10, kNode = 40, kSystem = 50;
  *level = i / 2 == j / 2 ? kSingleSwitch : i / 4 == j / 4 ? kNode : kSystem;
  return kSuccess;
}
int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, int* status) {
  if (links() == "") return kNotSupported;
  constexpr int kRead = 0, kNvlink = 2, kOk = 0, kOtherHalf = 3, kNotThere = 5;
  const size_t i = number(one), j = number(other);
  if (capability == kRead) {
    *status = links() == "pcie" && i / 4 != j / 4 ? kOtherHalf : kOk;
  } else if (capability == kNvlink) {
    *status = links() == "switch" || direct_links(i, j) > 0 ? kOk : kNotThere;
  } else {
    return kInvalidArgument;
  }
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* handle, unsigned link, int* active) {
  if (links() == "" || links() == "pcie") return kNotSupported;
  if (link >= 18) return kInvalidArgument;
  *active = links() == "switch" || !ends_of(number(handle), link).empty() ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, PciInfo* info) {
  if (links() == "switch") {
    *info = at(0xc0 + link % 4);
    return kSuccess;
  }
  const std::vector<size_t> ends = ends_of(number(handle), link);
  if (ends.empty()) return kInvalidArgument;
  *info = at(0x10 + static_cast<unsigned>(ends[0]));
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* type) {
  *type = links() == "switch" ? 2 : 0;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  if (links() == "") return kNotSupported;
  *generation = 5;
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* handle, unsigned* lanes) {
  if (links() == "") return kNotSupported;
  *lanes = links() == "pcie" && number(handle) == 1 ? 8 : 16;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) {
  if (links() == "") return kNotSupported;
  *lanes = 16;
  return kSuccess;
}
int nvmlDeviceGetCpuAffinity(void* handle, unsigned words, unsigned long* mask) {
  if (links() == "" || words < 2) return kNotSupported;
  mask[0] = number(handle) / 4 == 0 ? 0x0f : 0xf0;
  mask[1] = number(handle) / 4 == 0 ? 0x1 : 0x2;
  return kSuccess;
}
int nvmlDeviceGetMemoryAffinity(void* handle, unsigned words, unsigned long* mask, int scope) {
  if (links() == "" || words < 1 || scope != 0) return kNotSupported;
  mask[0] = 1UL << (number(handle) / 4);
  return kSuccess;
}

#endif

}  // extern "C"
