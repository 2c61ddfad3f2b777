// The cores that this process may use, and how ranks on one machine divide them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

// Those in this process's affinity mask, by number, in order.
std::vector<int> affinity_cores();

// From here on this thread, and all that it starts, runs on `cores` alone; empty: nothing changes.
// False, with errno, when that cannot be.
bool keep_to_cores(const std::vector<int>& cores);

// `cores` so that those that share a physical core, and then those of one socket, stand together:
// ranks with neighboring parts of it disturb each other least. In the order of their numbers where
// sysfs does not tell. `root` is "/" but in tests.
std::vector<int> by_neighborhood(std::vector<int> cores, const std::filesystem::path& root = "/");

struct CoreShare {
  std::vector<int> cores;  // empty: all, for there are too few to divide
  int64_t threads = 1;
};

// Each rank's: as many cores for each, and as many threads, or `threads_per_rank` of them where
// that is not 0.
std::vector<CoreShare> divide_cores(const std::vector<int>& cores, int64_t ranks,
                                    int64_t threads_per_rank);

// The cores of the NUMA node that a GPU hangs on, as its driver and the kernel's PCI tree tell;
// empty where they do not. `uuid` as NVML spells it.
std::vector<int> cores_near_gpu(const std::string& uuid, const std::filesystem::path& root = "/");

// The same for ranks with a GPU each: those whose GPUs are near the same cores divide these, as far
// as this process may use them. Where what is near is not known, a rank keeps all `cores`.
std::vector<CoreShare> divide_cores_near(const std::vector<std::vector<int>>& near_ranks,
                                         const std::vector<int>& cores, int64_t threads_per_rank);

}  // namespace sftbench
