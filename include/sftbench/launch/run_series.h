// One measurement that consists of several runs, one after the other, each in a child process of
// its own (child_measurement.h): how often does it end well? A job of one run is one child, whose
// result is the measurement's.
//
// Each run counts in exactly one of f_gpu_oom (ran out of GPU memory), f_no_error and
// f_other_error; runs that a watchdog ended are errors, and extra.f_hang says how many. How one run
// ends does not keep the next from starting, but for what no further run could change: data or
// weights that are not there, a choice that this machine cannot do. Then there is no figure, and
// the measurement failed with that reason.
#pragma once

#include <poll.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/launch/child_measurement.h"

namespace sftbench {

// Where a series stands.
struct SeriesProgress {
  int64_t run = 1;  // that is under way, from 1
  int64_t runs = 1;
  Heartbeat heartbeat;               // of that run
  std::vector<std::string> endings;  // of the runs before it: "no_error", "gpu_oom: OOM_GPU: ..."

  double done() const;  // part of the measurement, 0 to 1
};

// Used like a ChildMeasurement, by callers that wait for many.
class RunSeries {
 public:
  // Starts the first run. `spec` is that of the measurement, spec.job.runs the number of runs; its
  // time limits are those of each run, its log collects those of all. InputError when the log
  // cannot be written.
  explicit RunSeries(ChildSpec spec);
  ~RunSeries();  // ends what is left, at once
  RunSeries(RunSeries&&) noexcept = default;
  RunSeries& operator=(RunSeries&&) noexcept = default;

  void add_poll_fds(std::vector<pollfd>& fds) const;
  double deadline_s() const;

  // Never blocks. True when result() stands.
  bool advance();
  const Measurement& wait();  // the same, waiting

  const SeriesProgress& progress() const { return progress_; }
  double elapsed_s() const;  // since the start of the first run; stops at the end of the last

  // Ends the run under way as ChildMeasurement::end() does, and starts no other: the measurement
  // then has this reason.
  void end(ReasonCode code, const std::string& message);

  // REQUIRES: advance() said true.
  const Measurement& result() const;

 private:
  bool several() const { return progress_.runs > 1; }
  void open_log() const;
  ChildSpec spec_of_run() const;
  void take_run();
  void start_next(const Measurement& before);
  void settle(const Measurement& run, const Reason& reason);
  void finish(Measurement measurement);
  void append_log() const;

  ChildSpec spec_;
  double begin_s_;
  double end_s_ = 0;
  SeriesProgress progress_;
  std::unique_ptr<ChildMeasurement> child_;  // null only when this was moved from
  std::vector<Measurement> runs_;
  std::vector<double> seconds_;
  std::optional<Reason> asked_;  // to end, for this
  std::optional<Measurement> result_;
};

// Where the run under way writes its log, which is then added to `log`.
std::filesystem::path log_of_run(const std::filesystem::path& log);

// What several runs of a job come to; `runs` are the measurements of each, in order. Public for
// tests.
Measurement measurement_of_runs(const std::vector<Measurement>& runs,
                                const std::vector<double>& seconds);

}  // namespace sftbench
