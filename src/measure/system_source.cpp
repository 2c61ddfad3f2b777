#include "sftbench/measure/system_source.h"

#include <unistd.h>

#include <algorithm>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

class MachineSource : public SystemSource {
 public:
  MachineSource(const Nvml* nvml, int gpus) : nvml_(nvml), gpus_(gpus) {}

  SystemReading read() override {
    SystemReading reading;
    reading.time_s = steady_seconds();
    // A rank that ends passes on its time in ticks of 10 ms, or a moment later; no time is taken
    // back.
    cpu_seconds_ = std::max(cpu_seconds_, process_tree_cpu_seconds(getpid()));
    reading.cpu_seconds = cpu_seconds_;
    if (const auto times = run_queue_.read(getpid())) {
      reading.threads_ran_s = times->ran_s;
      reading.threads_waited_s = times->waited_s;
    }
    reading.host_cpu_seconds = host_cpu_seconds(proc_text("/proc/stat"));
    const std::string meminfo = proc_text("/proc/meminfo");
    reading.host_memory_percent = memory_percent_of_meminfo(meminfo);
    const auto total = static_cast<double>(kilobyte_field_bytes(meminfo, "MemTotal").value_or(0));
    const auto own = static_cast<double>(process_tree_resident_bytes(getpid()));
    if (total > 0) reading.memory_percent = std::min(100.0, 100 * own / total);
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      reading.gpus.push_back(nvml_->read(static_cast<size_t>(gpu)));
    }
    return reading;
  }

 private:
  const Nvml* nvml_;
  int gpus_;
  double cpu_seconds_ = 0;
  RunQueueClock run_queue_;
};

}  // namespace

std::unique_ptr<SystemSource> make_system_source(const Nvml* nvml, int gpus) {
  check(gpus == 0 || (nvml != nullptr && nvml->gpus().size() >= static_cast<size_t>(gpus)),
        "as many GPUs as are sampled are visible");
  return std::make_unique<MachineSource>(nvml, gpus);
}

}  // namespace sftbench
