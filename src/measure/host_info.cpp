#include "sftbench/measure/host_info.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "sftbench/base/environment.h"
#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::string cpuinfo_field(std::string_view cpuinfo, std::string_view name) {
  for (size_t begin = 0; begin < cpuinfo.size();) {
    const size_t end = std::min(cpuinfo.find('\n', begin), cpuinfo.size());
    const std::string_view line = cpuinfo.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, line.find_last_not_of(" \t:", colon) + 1);
    if (key != name) continue;
    const size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? "" : std::string(line.substr(value));
  }
  return {};
}

HostInfo read_host_info() {
  HostInfo host;
  host.name = host_name();
  const std::string cpuinfo = proc_text("/proc/cpuinfo");
  host.cpu = cpuinfo_field(cpuinfo, "model name");
  host.cores = usable_cores();
  host.memory_bytes = kilobyte_field_bytes(proc_text("/proc/meminfo"), "MemTotal").value_or(0);
  if (utsname system{}; uname(&system) == 0) {
    host.kernel = std::string(system.sysname) + " " + system.release;
  }
  std::istringstream flags(cpuinfo_field(cpuinfo, "flags"));
  for (std::string flag; flags >> flag;) host.cpu_flags.push_back(flag);
  return host;
}

}  // namespace sftbench
