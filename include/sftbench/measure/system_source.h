// What a machine reports about itself at one moment, and where such readings come from. The sampler
// and the aggregation know only this interface, so that tests can hand them exact readings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sftbench {

// Each value only if the device reports it (old boards have no energy counter, for example).
struct GpuReading {
  std::optional<double> utilization_percent;  // of the time, a kernel ran in the last period
  std::optional<double> memory_percent;       // memory in use / memory of the device
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;  // enforced limit
  std::optional<double> temperature_celsius;
  std::optional<double> energy_joules;  // counter since the driver was loaded
};

struct SystemReading {
  double time_s = 0;          // steady_seconds()
  double cpu_seconds = 0;     // counter: CPU time of this process and its descendants
  double memory_percent = 0;  // of the machine's memory: what this process and its descendants hold
  std::vector<GpuReading> gpus;    // those that the run uses, always in the same order
  double host_memory_percent = 0;  // in use by anybody, as AIM reports memory_percent
  // Counters of this process's and its descendants' threads, where the kernel tells: that they ran,
  // and that they could have run while others had the processors.
  std::optional<double> threads_ran_s, threads_waited_s;
  std::optional<double> host_cpu_seconds;  // counter: CPU time of all processes of the machine
};

class SystemSource {
 public:
  virtual ~SystemSource() = default;
  virtual SystemReading read() = 0;
};

class Nvml;

// /proc of this machine, and through `nvml` the first `gpus` devices that this process may use.
// `nvml` may be nullptr when `gpus` is 0; it must outlive the source.
std::unique_ptr<SystemSource> make_system_source(const Nvml* nvml, int gpus);

}  // namespace sftbench
