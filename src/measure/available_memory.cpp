#include "sftbench/measure/available_memory.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Nothing when the file is not there, or says "max".
std::optional<int64_t> number_in(const fs::path& path) {
  const std::string text = proc_text(path);
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return {};
  return number;
}

// The sum of the lines "name 123" of these names.
int64_t sum_of_lines(const fs::path& path, const std::vector<std::string>& names) {
  std::istringstream lines(proc_text(path));
  int64_t sum = 0;
  std::string name;
  for (int64_t value = 0; lines >> name >> value;) {
    if (std::find(names.begin(), names.end(), name) != names.end()) sum += value;
  }
  return sum;
}

// What is left in one group; nothing when it has no limit. The kernel drops pages of files before
// it refuses memory.
std::optional<int64_t> left_in(const MemoryCgroup& group, int64_t free_swap_bytes) {
  const fs::path& folder = group.folder;
  const auto limit = number_in(folder / (group.v2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(folder / (group.v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return {};
  const int64_t of_files =
      group.v2 ? sum_of_lines(folder / "memory.stat",
                              {"active_file", "inactive_file", "slab_reclaimable"})
               : sum_of_lines(folder / "memory.stat", {"total_active_file", "total_inactive_file"});
  int64_t swap = free_swap_bytes;
  if (const auto swap_limit = number_in(folder / "memory.swap.max"); group.v2 && swap_limit) {
    const int64_t swapped = number_in(folder / "memory.swap.current").value_or(0);
    swap = std::clamp<int64_t>(*swap_limit - swapped, 0, free_swap_bytes);
  }
  return std::max<int64_t>(0, *limit - *used + std::min(*used, of_files)) + swap;
}

}  // namespace

std::vector<MemoryCgroup> memory_cgroups(const fs::path& root) {
  const fs::path mounted = root / "sys/fs/cgroup";
  std::vector<MemoryCgroup> found;
  std::istringstream groups(proc_text(root / "proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/path", v2: "0::/path"
    const size_t controllers = line.find(':') + 1;
    const size_t path = line.find(':', controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string names = line.substr(controllers, path - controllers - 1);
    if (names != "memory" && !names.empty()) continue;
    const fs::path top = names == "memory" ? mounted / "memory" : mounted;
    for (fs::path group = fs::path(line.substr(path)).relative_path(); !group.empty();
         group = group.parent_path()) {
      found.push_back({top / group, "/" + group.string(), names.empty()});
    }
    found.push_back({top, "/", names.empty()});
  }
  return found;
}

AvailableMemory available_memory(const fs::path& root) {
  const std::string meminfo = proc_text(root / "proc/meminfo");
  const int64_t swap = kilobyte_field_bytes(meminfo, "SwapFree").value_or(0);
  AvailableMemory available = {kilobyte_field_bytes(meminfo, "MemAvailable").value_or(0) + swap,
                               {}};
  for (const MemoryCgroup& group : memory_cgroups(root)) {
    const std::optional<int64_t> left = left_in(group, swap);
    if (!left || *left >= available.bytes) continue;
    available = {*left, "the memory cgroup " + group.name};
  }
  return available;
}

}  // namespace sftbench
