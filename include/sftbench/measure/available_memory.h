// Memory that this machine, or the memory cgroup that this process runs in, has left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

struct AvailableMemory {
  int64_t bytes = 0;  // that new processes can get, pages of files that can be dropped included
  std::string limit;  // what sets it, where that is not the machine: "the memory cgroup /jobs/7"
};

// The least of what the kernel says of the machine (MemAvailable and free swap) and of each memory
// cgroup from this process's own upwards. `root` is "/" but in tests.
AvailableMemory available_memory(const std::filesystem::path& root = "/");

// Folders of this process's memory cgroups, its own first, then those that it lies in. In a
// container the path that the kernel names can be the host's, while what is mounted begins at the
// container's own group: folders need not exist.
struct MemoryCgroup {
  std::filesystem::path folder;
  std::string name;  // as the kernel names it: "/jobs/7"
  bool v2 = false;
};
std::vector<MemoryCgroup> memory_cgroups(const std::filesystem::path& root = "/");

}  // namespace sftbench
