#include "launch/child_end.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>

#include "sftbench/base/quantity_text.h"
#include "sftbench/measure/available_memory.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Whole, of a file of /proc or /sys, whose size is not known before.
std::string kernel_text(const fs::path& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  ::close(fd);
  return text;
}

// The number in the line "oom_kill 3".
std::optional<int64_t> oom_kill_field(const std::string& text) {
  constexpr std::string_view kName = "oom_kill ";
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin)) {
    if (text[begin] == '\n') ++begin;
    if (text.compare(begin, kName.size(), kName) != 0) continue;
    int64_t count = 0;
    const char* first = text.data() + begin + kName.size();
    if (std::from_chars(first, text.data() + text.size(), count).ec == std::errc()) return count;
  }
  return std::nullopt;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

bool is_crash(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGSYS:
    case SIGTRAP:
      return true;
    default:
      return false;
  }
}

ErrorClass explained_by_log(const std::string& log_tail, std::string otherwise) {
  ErrorClass found = classify_error(log_tail);
  if (found.code != ReasonCode::kInternal) return found;
  return {ReasonCode::kInternal, std::move(otherwise), last_line(log_tail)};
}

ErrorClass classify_signal(int signal, const ChildEnd& end) {
  if (signal == SIGKILL && end.oom_kills > 0) {
    return {ReasonCode::kOomHost,
            "the kernel ended the process because the host's memory did not suffice",
            "oom_kill rose by " + std::to_string(end.oom_kills) + " while it ran"};
  }
  if (!is_crash(signal)) {
    return {ReasonCode::kKilled, "the process was ended from outside by " + signal_name(signal),
            last_line(end.log_tail)};
  }
  return explained_by_log(end.log_tail, "the process crashed with " + signal_name(signal) + " (" +
                                            ::sigdescr_np(signal) + ")");
}

}  // namespace

ErrorClass classify_end(const ChildEnd& end) {
  if (end.asked) {
    ErrorClass asked = *end.asked;
    if (asked.evidence.empty()) asked.evidence = last_line(end.log_tail);
    return asked;
  }
  if (WIFSIGNALED(end.wait_status)) return classify_signal(WTERMSIG(end.wait_status), end);
  return explained_by_log(end.log_tail, "the process ended with status " +
                                            std::to_string(WEXITSTATUS(end.wait_status)) +
                                            " and without a result");
}

std::string tail_of_file(const fs::path& path, size_t most_bytes) {
  // Not blocking: somebody may have put a pipe there.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return {};
  struct stat status {};
  ::fstat(fd, &status);  // of a pipe or device: 0 bytes
  const auto size_bytes = static_cast<size_t>(status.st_size);
  const size_t offset_bytes = size_bytes > most_bytes ? size_bytes - most_bytes : 0;
  std::string text(size_bytes - offset_bytes, '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), static_cast<off_t>(offset_bytes));
  ::close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (offset_bytes > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

std::string last_line(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  const size_t begin = text.rfind('\n', end);
  return std::string(text.substr(begin + 1, end - begin));  // npos + 1 is 0
}

std::string progress_text(const Heartbeat& heartbeat) {
  if (heartbeat.steps_by_rank.empty()) return "it was still in its phase " + heartbeat.phase;
  std::string text;
  for (const auto& [rank, step] : heartbeat.steps_by_rank) {
    text += text.empty() ? "rank " : ", rank ";
    text += std::to_string(rank) + " had done " + std::to_string(step) + " of " +
            counted(heartbeat.total_steps, "step");
  }
  if (!heartbeat.whereabouts.empty()) text += "; last seen: " + heartbeat.whereabouts;
  return text;
}

std::optional<int64_t> count_oom_kills(const fs::path& root) {
  for (const MemoryCgroup& group : memory_cgroups(root)) {
    const fs::path file = group.folder / (group.v2 ? "memory.events" : "memory.oom_control");
    if (const auto count = oom_kill_field(kernel_text(file))) return count;
  }
  return oom_kill_field(kernel_text(root / "proc/vmstat"));
}

}  // namespace sftbench
