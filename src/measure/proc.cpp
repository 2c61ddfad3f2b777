#include "sftbench/measure/proc.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sftbench {
namespace {

namespace fs = std::filesystem;

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

template <typename Visit>
void for_each_in_tree(pid_t root, const Visit& visit) {
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t process = open.back();
    open.pop_back();
    visit(process);
    for (const pid_t child : children(process)) open.push_back(child);
  }
}

double ticks_per_second() {
  static const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return ticks;
}

// Of all its threads. The kernel's clock of the process is finer than the ticks of its stat file.
double own_cpu_seconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Of the children that this process has waited for: to the microsecond, where stat files have
// ticks.
double waited_children_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

int64_t waited_children_ticks(std::string_view stat) {
  // Field 2 is the program's name in brackets and may hold anything; fields are counted behind it.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return 0;
  std::istringstream fields{std::string(stat.substr(name_end + 1))};
  std::string skipped;
  for (int field = 3; field <= 15; ++field) fields >> skipped;
  int64_t user = 0;
  int64_t system = 0;
  fields >> user >> system;  // fields 16 and 17
  return user + system;
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

std::optional<double> host_cpu_seconds(std::string_view stat) {
  std::istringstream fields{std::string(stat)};
  std::string name;
  double user = 0, nice = 0, system = 0;
  if (!(fields >> name >> user >> nice >> system) || name != "cpu") return {};
  return (user + nice + system) / ticks_per_second();
}

double process_tree_cpu_seconds(pid_t root) {
  double seconds = 0;
  for_each_in_tree(root, [&](pid_t process) {
    const std::string stat = proc_text("/proc/" + std::to_string(process) + "/stat");
    seconds += own_cpu_seconds(process);
    seconds += process == getpid()
                   ? waited_children_seconds()
                   : static_cast<double>(waited_children_ticks(stat)) / ticks_per_second();
  });
  return seconds;
}

std::optional<ThreadTimes> schedstat_times(std::string_view schedstat) {
  std::istringstream fields{std::string(schedstat)};
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
  if (!(fields >> ran_ns >> waited_ns)) return {};
  return ThreadTimes{static_cast<double>(ran_ns) / 1e9, static_cast<double>(waited_ns) / 1e9};
}

std::optional<ThreadTimes> RunQueueClock::read(pid_t root) {
  std::map<pid_t, ThreadTimes> now;
  for_each_in_tree(root, [&now](pid_t process) {
    std::error_code error;
    const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
    for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
      const auto times = schedstat_times(proc_text((it->path() / "schedstat").string()));
      if (times) now[static_cast<pid_t>(std::stol(it->path().filename()))] = *times;
    }
  });
  for (const auto& [thread, times] : now) {
    const auto before = last_.find(thread);
    // A number that begins anew is that of another thread.
    const bool known = before != last_.end() && before->second.ran_s <= times.ran_s;
    const ThreadTimes since = known ? before->second : ThreadTimes();
    sum_.ran_s += times.ran_s - since.ran_s;
    sum_.waited_s += times.waited_s - since.waited_s;
  }
  counted_ = counted_ || !now.empty();
  last_ = std::move(now);
  if (!counted_) return {};
  return sum_;
}

// An iterator over the file would throw what read() answers of a process that ended after open().
std::string proc_text(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int64_t process_tree_resident_bytes(pid_t root) {
  int64_t bytes = 0;
  for_each_in_tree(root, [&bytes](pid_t process) {
    const std::string status = proc_text("/proc/" + std::to_string(process) + "/status");
    bytes += kilobyte_field_bytes(status, "VmRSS").value_or(0);
  });
  return bytes;
}

int64_t peak_rss_bytes() {
  return kilobyte_field_bytes(proc_text("/proc/self/status"), "VmHWM").value_or(0);
}

int64_t resident_bytes() {
  return kilobyte_field_bytes(proc_text("/proc/self/status"), "VmRSS").value_or(0);
}

}  // namespace sftbench
