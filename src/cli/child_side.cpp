#include "cli/child_side.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>

#include "cli/progress.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/launch/cores.h"
#include "sftbench/measure/proc.h"

namespace sftbench {

std::string read_standard_input() {
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return text;
  }
}

void empty_standard_input() {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, STDIN_FILENO);
  ::close(nothing);
}

void end_with_parent(int pipe_fd) {
  if (::getpgrp() != ::getpid()) return;  // not started as a group: a shell's pipeline, a debugger
  std::thread([pipe_fd] {
    pollfd pipe = {pipe_fd, 0, 0};
    while (::poll(&pipe, 1, -1) < 0 && errno == EINTR) {
    }
    ::kill(0, SIGKILL);
  }).detach();
}

void limit_memory(int64_t limit_bytes) {
  if (limit_bytes <= 0) return;
  const int64_t taken_bytes =
      kilobyte_field_bytes(read_file("/proc/self/status"), "VmData").value_or(0);
  if (taken_bytes >= limit_bytes) {
    throw RunError(ReasonCode::kOomHost,
                   "the memory limit of " + bytes_text(static_cast<double>(limit_bytes)) +
                       " is below the " + bytes_text(static_cast<double>(taken_bytes)) +
                       " that the program takes before it trains");
  }
  const auto most = static_cast<rlim_t>(limit_bytes);
  const rlimit limit = {most, most};
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) {
    throw RunError(ReasonCode::kInternal,
                   std::string("the memory limit cannot be set: ") + std::strerror(errno));
  }
}

void pin_to_cores(const std::vector<int>& cores) {
  if (!keep_to_cores(cores)) spdlog::warn("the cores cannot be set: {}", std::strerror(errno));
}

void prefer_to_be_killed() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  constexpr std::string_view kMore = "500";
  [[maybe_unused]] const ssize_t written = ::write(file, kMore.data(), kMore.size());
  ::close(file);
}

}  // namespace sftbench
