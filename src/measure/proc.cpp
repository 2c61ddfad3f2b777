#include "sftbench/measure/proc.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Empty when the process has ended meanwhile: not an error, just nothing to count any more.
std::string proc_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The kernel lists children per thread that forked them.
std::vector<pid_t> children(pid_t process) {
  std::vector<pid_t> found;
  std::error_code error;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
    std::istringstream list(proc_text((it->path() / "children").string()));
    for (pid_t child = 0; list >> child;) found.push_back(child);
  }
  return found;
}

}  // namespace

int64_t cpu_ticks_of_stat(std::string_view stat) {
  // Field 2 is the program's name in brackets and may hold anything; fields are counted behind it.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  std::istringstream fields{std::string(stat.substr(name_end + 1))};
  std::string skipped;
  for (int field = 3; field <= 13; ++field) fields >> skipped;
  int64_t ticks = 0;
  int64_t value = 0;
  for (int field = 14; field <= 17 && fields >> value; ++field) ticks += value;  // u/s, cu/cs time
  return ticks;
}

std::optional<int64_t> kilobyte_field_bytes(std::string_view text, std::string_view name) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.substr(0, name.size()) != name || line.substr(name.size(), 1) != ":") continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    int64_t kilobytes = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), kilobytes);
    if (parsed.ec != std::errc()) return {};
    return kilobytes * 1024;
  }
  return {};
}

double memory_percent_of_meminfo(std::string_view meminfo) {
  const auto bytes = [meminfo](std::string_view name) {
    return static_cast<double>(kilobyte_field_bytes(meminfo, name).value_or(0));
  };
  const double total = bytes("MemTotal");
  if (total <= 0) return 0;
  const double used =
      total - bytes("MemFree") - bytes("Buffers") - bytes("Cached") - bytes("SReclaimable");
  return 100 * used / total;
}

double process_tree_cpu_seconds(pid_t root) {
  static const double kTicksPerSecond = static_cast<double>(sysconf(_SC_CLK_TCK));
  int64_t ticks = 0;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t process = open.back();
    open.pop_back();
    ticks += cpu_ticks_of_stat(proc_text("/proc/" + std::to_string(process) + "/stat"));
    for (const pid_t child : children(process)) open.push_back(child);
  }
  return static_cast<double>(ticks) / kTicksPerSecond;
}

int64_t peak_rss_bytes() {
  return kilobyte_field_bytes(proc_text("/proc/self/status"), "VmHWM").value_or(0);
}

}  // namespace sftbench
