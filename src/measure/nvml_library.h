// The functions of NVML that are called, as they stand in the "NVML API Reference Guide".
#pragma once

#include <dlfcn.h>

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
};

}  // namespace sftbench
