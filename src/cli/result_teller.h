// Keeps a measurement of `run` in its place and prints it.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "cli/result_place.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

class ResultTeller {
 public:
  // `place` and `watcher` must outlive it. The watcher's last words end with it.
  ResultTeller(ResultPlace& place, InterruptWatcher& watcher, OutputFormat format,
               DevicePrices prices)
      : place_(place), watcher_(watcher), format_(format), prices_(std::move(prices)) {}
  ~ResultTeller() { watcher_.set_last_words({}); }
  ResultTeller(const ResultTeller&) = delete;
  ResultTeller& operator=(const ResultTeller&) = delete;

  // Writes and prints it, once, whichever thread is the first. Returns the exit status.
  int tell(const Measurement& measurement);

  // The same, before an end of the process that destroys nothing.
  int tell_at_the_end(const Measurement& measurement);

 private:
  // Nothing when the measurement cannot be written: nothing of it is left then.
  std::optional<ResultPlace::Kept> keep(const Measurement& measurement);

  ResultPlace& place_;
  InterruptWatcher& watcher_;
  OutputFormat format_;
  DevicePrices prices_;
  std::mutex told_mutex_;
  std::optional<int> told_;  // the exit status
};

}  // namespace sftbench
