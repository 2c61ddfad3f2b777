#include "sftbench/measure/system_source.h"

#include <unistd.h>

#include <fstream>

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
    reading.cpu_seconds = process_tree_cpu_seconds(getpid());
    std::ifstream file("/proc/meminfo");
    const std::string meminfo{std::istreambuf_iterator<char>(file), {}};
    reading.memory_percent = memory_percent_of_meminfo(meminfo);
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      reading.gpus.push_back(nvml_->read(static_cast<size_t>(gpu)));
    }
    return reading;
  }

 private:
  const Nvml* nvml_;
  int gpus_;
};

}  // namespace

std::unique_ptr<SystemSource> make_system_source(const Nvml* nvml, int gpus) {
  check(gpus == 0 || (nvml != nullptr && nvml->gpus().size() >= static_cast<size_t>(gpus)),
        "as many GPUs as are sampled are visible");
  return std::make_unique<MachineSource>(nvml, gpus);
}

}  // namespace sftbench
