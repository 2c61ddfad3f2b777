// One measurement in a child process of this executable (`sftbench measure`), in a process group of
// its own: whatever it does, it costs one measurement and never the program that asked for it. The
// parent needs no libtorch, no thread and no temporary file: the request and the result travel
// through anonymous memory, heartbeats through a pipe, all else that the child says into its log.
//
// Every ending becomes a Measurement with a reason code and an evidence line (child_end.h).
// When it stands, nothing of the group is alive. If the parent dies, however, the group dies with
// it.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/launch/child_reply.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

struct ChildSpec {
  TrainingJob job;
  bool generate_dataset = false;  // as in Resolution: the child makes the dataset first
  std::string command;            // that repeats the measurement, for the result

  std::vector<std::string> simulate;  // --simulate key=value, checked before (simulate/settings.h)
  int sample = 1;                     // of this key; simulated noise differs from sample to sample
  int attempt = 1;                    // of this sample; simulated faults differ

  std::filesystem::path log;     // grows here (ResultStore::growing_log_path); its folder exists
  std::string final_log;         // what a reason names (ResultStore::log_path)
  std::filesystem::path series;  // gets what is sampled (results/sample_series.h); empty: none
  std::vector<std::string> trackers;  // KIND=TARGET (trackers/spec.h), checked before

  std::vector<std::pair<std::string, std::string>> environment;  // over this process's own
  std::vector<int> cpus;           // cores that it may use, by number; empty: those of the parent
  int64_t host_memory_bytes = 0;   // of private memory; more ends as OOM_HOST; 0: no limit
  double timeout_s = 0;            // from start to end; then TIMEOUT; 0: never
  double stall_timeout_s = 0;      // without a sign of progress; then HANG; 0: never
  double grace_s = 5;              // between SIGTERM and SIGKILL
  std::vector<int> inherited_fds;  // stay open in the child, as long as it lives: locks

  std::filesystem::path executable = "/proc/self/exe";  // tests name the built one
};

// REQUIRES of the thread that makes one: nothing; of the process: that it does not wait for
// children that are not its own (waitpid(-1)). Not thread-safe. Any number can live side by side:
// poll() over all their descriptors until the earliest deadline, then advance() each.
class ChildMeasurement {
 public:
  // Starts it. InputError when the log cannot be written; a child that cannot be started at all is
  // a failed measurement, at the first advance().
  explicit ChildMeasurement(ChildSpec spec);
  // Ends what is left of the group, at once (SIGKILL), and waits for the child.
  ~ChildMeasurement();
  ChildMeasurement(ChildMeasurement&&) noexcept;
  ChildMeasurement& operator=(ChildMeasurement&&) noexcept;

  const ChildSpec& spec() const;
  pid_t pid() const;  // of the group, too; -1 when it could not be started

  // Appends what to wait for: heartbeats and the end.
  void add_poll_fds(std::vector<pollfd>& fds) const;

  // steady_seconds() at which advance() is due though nothing can be read: a watchdog or the end of
  // a grace period. Infinity when there is none.
  double deadline_s() const;

  // Reads heartbeats, minds the watchdogs, collects the end. Never blocks. True when result()
  // stands; from then on it does nothing.
  bool advance();

  // The same, waiting: for callers with nothing else to do.
  const Measurement& wait();

  const Heartbeat& heartbeat() const;
  double elapsed_s() const;  // since the start; stops at the end

  // Asks the group to end (SIGTERM, after the grace period SIGKILL): the result then has this
  // reason unless the child ended by itself before. Again: SIGKILL at once.
  void end(ReasonCode code, const std::string& message);

  // REQUIRES: advance() said true. Also of a child that crashed: names, inputs, command, times and
  // as much of the environment as it told.
  const Measurement& result() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sftbench
