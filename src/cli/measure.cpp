#include "sftbench/cli/measure.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "cli/measuring_session.h"
#include "cli/run_log.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/cli/app.h"
#include "sftbench/cli/progress.h"
#include "sftbench/launch/build_info.h"
#include "sftbench/launch/child_reply.h"
#include "sftbench/launch/child_request.h"
#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

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

// What comes after must not find the request there.
void empty_standard_input() {
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, STDIN_FILENO);
  ::close(nothing);
}

// When the last process that reads heartbeats is gone, nobody waits for this measurement: the whole
// group ends, also the processes that this one has started.
void end_with_parent(int heartbeat_fd) {
  if (::getpgrp() != ::getpid()) return;  // not started as a group: a shell's pipeline, a debugger
  std::thread([heartbeat_fd] {
    pollfd pipe = {heartbeat_fd, 0, 0};
    while (::poll(&pipe, 1, -1) < 0 && errno == EINTR) {
    }
    ::kill(0, SIGKILL);
  }).detach();
}

// Private memory beyond the limit is refused: an error with a name, where the kernel's own way of
// making room would be SIGKILL for whoever is largest. Set only once libtorch is loaded: there are
// BLAS libraries that try for ever to get the buffers that they want at their start.
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

void keep_to_cores(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    spdlog::warn("the cores cannot be set: {}", std::strerror(errno));
  }
}

// Should the host run out of memory, the kernel takes this process rather than its parent, which
// has the results of all others still to come.
void prefer_to_be_killed() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  constexpr std::string_view kMore = "500";
  [[maybe_unused]] const ssize_t written = ::write(file, kMore.data(), kMore.size());
  ::close(file);
}

Measurement measure(const ChildRequest& request, const RunLog& log) {
  HeartbeatSender heartbeats(request.heartbeat_fd);
  StepLog step_log(log);
  MeasuringSession session(request.job,
                           {request.backend, request.simulate, request.sample, request.attempt});
  session.settings().observers = {&step_log, &heartbeats};
  session.settings().command = request.command;
  session.settings().log = request.final_log;
  session.settings().begun = [&](const Measurement& begun) {
    send_begun(request.result_fd, begun);
    limit_memory(request.host_memory_bytes);
    heartbeats.phase("preparing");
  };
  const auto logged = [&log](Measurement measurement) {
    if (const auto& reason = measurement.reason)
      log.line("error", reason_text(reason->code, reason->message, reason->evidence));
    return measurement;
  };
  try {
    if (request.generate_dataset) heartbeats.phase("dataset");
    session.prepare(request.generate_dataset,
                    [](const std::string& line) { spdlog::info("{}", line); });
  } catch (const std::exception& error) {
    return logged(session.ended(classify_exception(error, request.job)));
  }
  heartbeats.phase("engine");
  spdlog::info("measuring {} with {}", request.job.entity_id, request.job.experiment_id);
  return logged(session.train());
}

}  // namespace

int measure_for_parent() {
  ::prctl(PR_SET_NAME, "sftbench");  // else the name of the link /proc/self/exe
  // A parent that is gone is noticed by its pipe (end_with_parent), a full disk by the write.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const RunLog log;
  try {
    const ChildRequest request = child_request_from_json(
        parse_json(read_standard_input(), "standard input"), "standard input");
    empty_standard_input();
    end_with_parent(request.heartbeat_fd);
    prefer_to_be_killed();
    keep_to_cores(request.cpus);
    send_result(request.result_fd, measure(request, log));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sftbench %s is what a sweep starts for each measurement: %s\n",
                 kMeasureCommand, error.what());
    return kUsageExitCode;
  }
  std::fflush(nullptr);
  std::_Exit(0);  // what libtorch and the driver's libraries do at an exit takes long and can crash
}

}  // namespace sftbench
