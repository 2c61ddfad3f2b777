// The functions of NVML that are called, as they stand in the "NVML API Reference Guide".
#pragma once

#include <dlfcn.h>

#include <array>

#include "sftbench/measure/nvml.h"

namespace sftbench {

struct Nvml::Library {
  using Handle = void*;
  using Status = int;
  static constexpr Status kSuccess = 0;

  struct Utilization {
    unsigned gpu, memory;
  };
  struct Memory {
    unsigned long long total, free, used;
  };
  // The first four stand in all versions of nvmlPciInfo_t. What follows fills the largest of them.
  struct PciInfo {
    std::array<char, 16> text;
    unsigned domain, bus, device;
    std::array<unsigned, 16> others;
  };

  void* file = nullptr;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*driver_version)(char*, unsigned) = nullptr;
  Status (*count)(unsigned*) = nullptr;
  Status (*by_index)(unsigned, Handle*) = nullptr;
  Status (*name)(Handle, char*, unsigned) = nullptr;
  Status (*uuid)(Handle, char*, unsigned) = nullptr;
  Status (*memory)(Handle, Memory*) = nullptr;
  Status (*utilization)(Handle, Utilization*) = nullptr;
  Status (*power_milliwatts)(Handle, unsigned*) = nullptr;
  Status (*power_limit_milliwatts)(Handle, unsigned*) = nullptr;
  Status (*temperature)(Handle, unsigned, unsigned*) = nullptr;
  Status (*energy_millijoules)(Handle, unsigned long long*) = nullptr;
  // Of the topology. Any of them may be null.
  Status (*pci_info)(Handle, PciInfo*) = nullptr;
  Status (*common_ancestor)(Handle, Handle, int*) = nullptr;
  Status (*p2p_status)(Handle, Handle, int, int*) = nullptr;
  Status (*nvlink_state)(Handle, unsigned, int*) = nullptr;
  Status (*nvlink_remote)(Handle, unsigned, PciInfo*) = nullptr;
  Status (*nvlink_remote_type)(Handle, unsigned, int*) = nullptr;
  Status (*pcie_generation)(Handle, unsigned*) = nullptr;
  Status (*pcie_width)(Handle, unsigned*) = nullptr;
  Status (*pcie_full_width)(Handle, unsigned*) = nullptr;
  Status (*cpus)(Handle, unsigned, unsigned long*) = nullptr;
  Status (*numa_nodes)(Handle, unsigned, unsigned long*, int) = nullptr;
  bool initialized = false;

  ~Library() {
    if (initialized) shutdown();
    if (file != nullptr) dlclose(file);
  }

  template <typename Function>
  bool find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(file, symbol));
    return function != nullptr;
  }

  // The name of the first function that a measurement cannot do without and that is missing.
  const char* bind() {
    find(energy_millijoules, "nvmlDeviceGetTotalEnergyConsumption");
    find(power_limit_milliwatts, "nvmlDeviceGetEnforcedPowerLimit");
    bind_topology();
    if (!find(init, "nvmlInit_v2")) return "nvmlInit_v2";
    if (!find(shutdown, "nvmlShutdown")) return "nvmlShutdown";
    if (!find(error_string, "nvmlErrorString")) return "nvmlErrorString";
    if (!find(driver_version, "nvmlSystemGetDriverVersion")) return "nvmlSystemGetDriverVersion";
    if (!find(count, "nvmlDeviceGetCount_v2")) return "nvmlDeviceGetCount_v2";
    if (!find(by_index, "nvmlDeviceGetHandleByIndex_v2")) return "nvmlDeviceGetHandleByIndex_v2";
    if (!find(name, "nvmlDeviceGetName")) return "nvmlDeviceGetName";
    if (!find(uuid, "nvmlDeviceGetUUID")) return "nvmlDeviceGetUUID";
    if (!find(memory, "nvmlDeviceGetMemoryInfo")) return "nvmlDeviceGetMemoryInfo";
    if (!find(utilization, "nvmlDeviceGetUtilizationRates")) return "nvmlDeviceGetUtilizationRates";
    if (!find(power_milliwatts, "nvmlDeviceGetPowerUsage")) return "nvmlDeviceGetPowerUsage";
    if (!find(temperature, "nvmlDeviceGetTemperature")) return "nvmlDeviceGetTemperature";
    return nullptr;
  }

 private:
  // Newer spellings first.
  void bind_topology() {
    if (!find(pci_info, "nvmlDeviceGetPciInfo_v3") && !find(pci_info, "nvmlDeviceGetPciInfo_v2")) {
      find(pci_info, "nvmlDeviceGetPciInfo");
    }
    find(common_ancestor, "nvmlDeviceGetTopologyCommonAncestor");
    find(p2p_status, "nvmlDeviceGetP2PStatus");
    find(nvlink_state, "nvmlDeviceGetNvLinkState");
    if (!find(nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2")) {
      find(nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo");
    }
    find(nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
    find(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
    find(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
    find(pcie_full_width, "nvmlDeviceGetMaxPcieLinkWidth");
    find(cpus, "nvmlDeviceGetCpuAffinity");
    find(numa_nodes, "nvmlDeviceGetMemoryAffinity");
  }
};

}  // namespace sftbench
