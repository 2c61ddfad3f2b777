#include "sftbench/launch/child_measurement.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <optional>
#include <system_error>

#include "launch/advance_to_the_end.h"
#include "launch/child_end.h"
#include "launch/child_files.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/launch/child_process.h"
#include "sftbench/launch/child_request.h"
#include "sftbench/launch/measure_job.h"
#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

// How long the end of the leader's group is waited for: a killed process may be in the middle of
// giving back a device.
constexpr double kLingerSeconds = 5;
constexpr double kLookAgainSeconds = 0.01;
// At a memory limit libraries may wait for ever for a thread (its stack: 8 MiB) or a buffer
// (OpenBLAS: 128 MiB) that they did not get. Without progress and with less than this left, memory
// is the reason.
constexpr int64_t kThreadBytes = int64_t{16} << 20;
constexpr int64_t kBufferBytes = int64_t{192} << 20;
constexpr double kMemoryLookSeconds = 30;

std::string whole_text(int fd) {
  struct stat status {};
  ::fstat(fd, &status);
  std::string text(static_cast<size_t>(status.st_size), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", seconds);
  return text.data();
}

}  // namespace

class ChildMeasurement::Impl {
 public:
  explicit Impl(ChildSpec spec)
      : spec_(std::move(spec)), begin_s_(steady_seconds()), started_at_(utc_now_iso8601()) {
    heartbeat_.received_s = begin_s_;
    const OwnedFd log = open_log(spec_.log);
    try {
      start(log.get());
    } catch (const std::system_error& error) {
      cannot_start_ =
          ErrorClass{ReasonCode::kInternal, "the child process cannot be started", error.what()};
    }
  }

  const ChildSpec& spec() const { return spec_; }
  pid_t pid() const { return process_ ? process_->pid() : -1; }
  const Heartbeat& heartbeat() const { return heartbeat_; }
  double elapsed_s() const { return (done_ ? end_s_ : steady_seconds()) - begin_s_; }

  const Measurement& result() const {
    check(done_, "the child has ended");
    return measurement_;
  }

  void add_poll_fds(std::vector<pollfd>& fds) const {
    if (done_ || !process_) return;
    if (heartbeats_.get() >= 0) fds.push_back({heartbeats_.get(), POLLIN, 0});
    if (!leader_ended_ && process_->pidfd() >= 0) fds.push_back({process_->pidfd(), POLLIN, 0});
  }

  double deadline_s() const {
    if (done_) return kNever;
    if (!process_) return begin_s_;
    if (leader_ended_) return linger_until_s_;
    if (asked_) return kill_at_s_;
    // Without descriptors for processes (Linux before 5.3) the end has to be looked for.
    if (heartbeats_.get() < 0 && process_->pidfd() < 0) return steady_seconds() + kLookAgainSeconds;
    const double timeout_s = spec_.timeout_s > 0 ? begin_s_ + spec_.timeout_s : kNever;
    const double stall_s =
        spec_.stall_timeout_s > 0 ? heartbeat_.received_s + spec_.stall_timeout_s : kNever;
    return std::min({timeout_s, stall_s, spec_.host_memory_bytes > 0 ? look_at_memory_s_ : kNever});
  }

  bool advance() {
    if (done_) return true;
    if (!process_) {
      settle(*cannot_start_);
      return true;
    }
    read_heartbeats();
    if (!leader_ended_ && process_->ended()) {
      leader_ended_ = true;
      linger_until_s_ = steady_seconds() + kLingerSeconds;
      read_heartbeats();
    }
    if (leader_ended_) {
      // The pipe ends with the last process that holds it.
      if (heartbeats_.get() < 0 || steady_seconds() >= linger_until_s_) collect();
      return done_;
    }
    mind_watchdogs();
    return false;
  }

  void end(ReasonCode code, const std::string& message) {
    if (done_ || !process_ || leader_ended_) return;
    if (asked_) {
      kill_group();
      return;
    }
    asked_ = ErrorClass{code, message, {}};
    kill_at_s_ = steady_seconds() + spec_.grace_s;
    process_->signal_group(SIGTERM);
    process_->signal_group(SIGCONT);  // who is stopped would not even see SIGTERM
  }

 private:
  void start(int log) {
    Pipe pipe = make_pipe();
    heartbeats_ = std::move(pipe.read_end);
    const OwnedFd write_end = std::move(pipe.write_end);
    reply_ = anonymous_file("sftbench-reply");
    const OwnedFd request = anonymous_file("sftbench-request", request_text(write_end.get()));
    oom_kills_before_ = count_oom_kills();

    std::vector<int> inherited = spec_.inherited_fds;
    inherited.push_back(write_end.get());
    inherited.push_back(reply_.get());
    process_ = std::make_unique<ChildProcess>(ProcessSpec{.executable = spec_.executable,
                                                          .arguments = {kMeasureCommand},
                                                          .environment = spec_.environment,
                                                          .standard_input = request.get(),
                                                          .standard_output = log,
                                                          .inherited_fds = std::move(inherited)});
  }

  std::string request_text(int heartbeat_fd) const {
    return packed_json(to_json(ChildRequest{.job = spec_.job,
                                            .generate_dataset = spec_.generate_dataset,
                                            .command = spec_.command,
                                            .log = spec_.log.string(),
                                            .final_log = spec_.final_log,
                                            .series = spec_.series.string(),
                                            .trackers = spec_.trackers,
                                            .simulate = spec_.simulate,
                                            .sample = spec_.sample,
                                            .attempt = spec_.attempt,
                                            .cpus = spec_.cpus,
                                            .host_memory_bytes = spec_.host_memory_bytes,
                                            .heartbeat_fd = heartbeat_fd,
                                            .result_fd = reply_.get()}));
  }

  void read_heartbeats() {
    if (heartbeats_.get() < 0) return;
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t got = ::read(heartbeats_.get(), buffer.data(), buffer.size());
      if (got > 0) {
        unread_.append(buffer.data(), static_cast<size_t>(got));
        take_heartbeats(unread_, heartbeat_);
      } else if (got == 0) {
        heartbeats_.close();
        return;
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  void mind_watchdogs() {
    const double now_s = steady_seconds();
    if (asked_) {
      if (now_s >= kill_at_s_) kill_group();
    } else if (spec_.timeout_s > 0 && now_s >= begin_s_ + spec_.timeout_s) {
      end(ReasonCode::kTimeout, "it did not end within " + seconds_text(spec_.timeout_s) + ": " +
                                    progress_text(heartbeat_));
    } else if (spec_.stall_timeout_s > 0 &&
               now_s >= heartbeat_.received_s + spec_.stall_timeout_s) {
      end_stalled(spec_.stall_timeout_s, memory_left_bytes() < kBufferBytes);
    } else if (spec_.host_memory_bytes > 0 && now_s >= look_at_memory_s_) {
      look_at_memory_s_ = now_s + kMemoryLookSeconds;
      if (now_s >= heartbeat_.received_s + kMemoryLookSeconds &&
          memory_left_bytes() < kThreadBytes) {
        end_stalled(kMemoryLookSeconds, true);
      }
    }
  }

  void end_stalled(double seconds, bool for_memory) {
    const std::string message = "no sign of progress for " + seconds_text(seconds);
    end(for_memory ? ReasonCode::kOomHost : ReasonCode::kHang,
        message + (for_memory ? " at the memory limit: " : ": ") + progress_text(heartbeat_));
  }

  // Below the limit that the child was given; a great deal when there is none.
  int64_t memory_left_bytes() const {
    if (spec_.host_memory_bytes <= 0) return std::numeric_limits<int64_t>::max();
    try {
      const std::string status = read_file("/proc/" + std::to_string(process_->pid()) + "/status");
      return spec_.host_memory_bytes - kilobyte_field_bytes(status, "VmData").value_or(0);
    } catch (const InputError&) {  // it has just ended
      return std::numeric_limits<int64_t>::max();
    }
  }

  void kill_group() {
    process_->signal_group(SIGKILL);
    kill_at_s_ = kNever;
  }

  // The child's own result, or the reason why there is none.
  void collect() {
    ChildReply reply = parse_reply(whole_text(reply_.get()));
    if (reply.result) {
      measurement_ = std::move(*reply.result);
      finish();
      return;
    }
    begun_ = std::move(reply.begun);
    const std::optional<int64_t> oom_kills = count_oom_kills();
    settle(classify_end({.wait_status = process_->wait_status(),
                         .oom_kills = oom_kills.value_or(0) - oom_kills_before_.value_or(0),
                         .log_tail = tail_of_file(spec_.log),
                         .asked = asked_}));
  }

  void settle(const ErrorClass& error) {
    measurement_ = begun_ ? std::move(*begun_) : never_begun();
    measurement_.started_at = started_at_;
    set_outcome(measurement_, makes_invalid(error.code) ? Status::kInvalid : Status::kFailed,
                {error.code, error.message, error.evidence, spec_.final_log});
    measurement_.extra = Json::object();
    measurement_.finished_at = utc_now_iso8601();
    finish();
  }

  Measurement never_begun() const { return begin_measurement(spec_.job, spec_.command, nullptr); }

  void finish() {
    done_ = true;
    end_s_ = steady_seconds();
    heartbeats_.close();
    reply_.close();
  }

  ChildSpec spec_;
  double begin_s_;
  double end_s_ = 0;
  std::string started_at_;
  bool done_ = false;
  Measurement measurement_;
  std::optional<Measurement> begun_;
  std::optional<ErrorClass> cannot_start_;

  OwnedFd heartbeats_;
  OwnedFd reply_;
  std::string unread_;
  Heartbeat heartbeat_;
  std::unique_ptr<ChildProcess> process_;

  std::optional<ErrorClass> asked_;
  double kill_at_s_ = kNever;
  double look_at_memory_s_ = begin_s_ + kMemoryLookSeconds;
  bool leader_ended_ = false;
  double linger_until_s_ = kNever;
  std::optional<int64_t> oom_kills_before_;
};

ChildMeasurement::ChildMeasurement(ChildSpec spec)
    : impl_(std::make_unique<Impl>(std::move(spec))) {}
ChildMeasurement::~ChildMeasurement() = default;
ChildMeasurement::ChildMeasurement(ChildMeasurement&&) noexcept = default;
ChildMeasurement& ChildMeasurement::operator=(ChildMeasurement&&) noexcept = default;

const ChildSpec& ChildMeasurement::spec() const {
  return impl_->spec();
}
pid_t ChildMeasurement::pid() const {
  return impl_->pid();
}
void ChildMeasurement::add_poll_fds(std::vector<pollfd>& fds) const {
  impl_->add_poll_fds(fds);
}
double ChildMeasurement::deadline_s() const {
  return impl_->deadline_s();
}
bool ChildMeasurement::advance() {
  return impl_->advance();
}
const Heartbeat& ChildMeasurement::heartbeat() const {
  return impl_->heartbeat();
}
double ChildMeasurement::elapsed_s() const {
  return impl_->elapsed_s();
}
const Measurement& ChildMeasurement::result() const {
  return impl_->result();
}

void ChildMeasurement::end(ReasonCode code, const std::string& message) {
  impl_->end(code, message);
}

const Measurement& ChildMeasurement::wait() {
  advance_to_the_end(*this);
  return result();
}

}  // namespace sftbench
