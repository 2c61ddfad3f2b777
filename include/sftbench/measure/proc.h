// The figures of /proc that a measurement needs. The parsers take the file's text, so that they can
// be tested with texts of machines that are not at hand.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// CPU time of the ended children that the process of a /proc/<pid>/stat text has waited for, ticks.
int64_t waited_children_ticks(std::string_view stat);

// Percent of the memory in use: (MemTotal - MemFree - Buffers - Cached - SReclaimable) / MemTotal,
// which is psutil's `used / total` that AIM records as memory_percent.
double memory_percent_of_meminfo(std::string_view meminfo);

// A file of /proc or /sys. Empty when it is not there, cannot be read, or its process ends
// meanwhile: not an error, just nothing to count any more.
std::string proc_text(const std::string& path);

// Bytes of a "Name:  123 kB" line of /proc/meminfo or /proc/<pid>/status; nothing when it is
// absent.
std::optional<int64_t> kilobyte_field_bytes(std::string_view text, std::string_view name);

// CPU time of the process and of all its living descendants (ranks), seconds, to the nanosecond. A
// descendant that ends between two calls is counted by the parent that waited for it, to 10 ms, by
// this process to the microsecond.
double process_tree_cpu_seconds(pid_t root);

// CPU time of all processes of the machine by a /proc/stat text, to 10 ms: user, nice and system.
// Nothing when it has not got them.
std::optional<double> host_cpu_seconds(std::string_view stat);

// Resident sets of the process and of all its living descendants (ranks), added up, bytes: pages
// that they share count for each, as in psutil's memory_percent of a process.
int64_t process_tree_resident_bytes(pid_t root);

// What threads had of processors, seconds.
struct ThreadTimes {
  double ran_s = 0;
  double waited_s = 0;  // able to run, while others had the processors
};

// The first two fields of a /proc/<pid>/task/<tid>/schedstat text; nothing when it has not got
// them.
std::optional<ThreadTimes> schedstat_times(std::string_view schedstat);

// Adds up what the threads of a process and of its living descendants had, those that have ended
// between two readings up to the one before.
class RunQueueClock {
 public:
  // A counter: differences between two readings are what counts. Nothing where the kernel does not
  // tell.
  std::optional<ThreadTimes> read(pid_t root);

 private:
  std::map<pid_t, ThreadTimes> last_;
  ThreadTimes sum_;
  bool counted_ = false;
};

// Largest resident set that this process has had (VmHWM), bytes.
int64_t peak_rss_bytes();

// What it has now (VmRSS).
int64_t resident_bytes();

}  // namespace sftbench
