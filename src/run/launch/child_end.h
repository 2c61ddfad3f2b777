// What the end of a child's process says about its measurement when it left no result.
//
//   asked to end by the parent       the parent's reason: TIMEOUT, HANG, KILLED
//   SIGKILL, and the kernel's count of processes that it killed for lack of memory rose  OOM_HOST
//   SIGKILL, SIGTERM, SIGINT, ...    KILLED: somebody else ended it
//   SIGSEGV, SIGABRT, ... or a status of its own  what its log's last lines say (classify_error.h:
//                                    OOM_GPU, NCCL, OOM_HOST), else INTERNAL
// Evidence is the kernel's count, or a line of the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "sftbench/launch/child_reply.h"
#include "sftbench/plan/classify_error.h"

namespace sftbench {

struct ChildEnd {
  int wait_status = 0;              // as waitpid() gives it
  int64_t oom_kills = 0;            // of the kernel, while the child ran
  std::string log_tail;             // its last lines
  std::optional<ErrorClass> asked;  // the parent asked the child to end, for this
};

ErrorClass classify_end(const ChildEnd& end);

// The last `most_bytes` of a file, from a line's begin on; empty when it cannot be read.
std::string tail_of_file(const std::filesystem::path& path, size_t most_bytes = 16384);

// The last line that is not blank.
std::string last_line(std::string_view text);

// "rank 0 had done 3 of 10 steps, rank 1 2 of 10"; before training: "it was still in its phase
// engine".
std::string progress_text(const Heartbeat& heartbeat);

// Processes that the kernel has killed for lack of memory so far: in this process's memory cgroup
// (v2: memory.events, v1: memory.oom_control, field oom_kill), else on the whole machine
// (/proc/vmstat). Nothing when none of them tells. `root` is "/" but in tests.
std::optional<int64_t> count_oom_kills(const std::filesystem::path& root = "/");

}  // namespace sftbench
