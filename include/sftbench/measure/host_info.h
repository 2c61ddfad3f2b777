// What kind of machine this is, as far as it bears on a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

struct HostInfo {
  std::string name;  // hostname
  std::string cpu;   // model name of /proc/cpuinfo
  int cores = 0;     // that this process may use (its affinity mask)
  int64_t memory_bytes = 0;
  std::string kernel;  // "Linux 6.1.0"
  std::vector<std::string> cpu_flags;
};

HostInfo read_host_info();

// The value of the first "name : value" line of a /proc/cpuinfo text; empty when there is none.
std::string cpuinfo_field(std::string_view cpuinfo, std::string_view name);

}  // namespace sftbench
