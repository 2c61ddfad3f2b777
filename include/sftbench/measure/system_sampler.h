// Samples the machine on a thread of its own while a run trains: once when training begins, then
// once per period, once when it ends, and whenever sample_now() is called. Sampling times are
// begin + k * period on the steady clock, so that a slow reading does not make them drift.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "sftbench/measure/events.h"
#include "sftbench/measure/system_source.h"

namespace sftbench {

class SystemSampler : public TrainObserver {
 public:
  // REQUIRES: period_s > 0. `source` is called by one thread at a time, and so is `sampled`, with
  // each sample as it is taken: it must not wait.
  SystemSampler(SystemSource& source, double period_s,
                std::function<void(const SystemReading&)> sampled = {});

  void on_train_begin(const TrainBegin&) override;
  void on_train_end(const TrainEnd&) override;

  // Takes a sample at once, from any thread; used where the measured span begins.
  void sample_now();

  // In the order in which they were taken. Complete after on_train_end.
  std::vector<SystemReading> samples() const;

 private:
  void run(std::stop_token stop);
  void take();  // REQUIRES: mutex_ is held

  SystemSource& source_;
  double period_s_;
  std::function<void(const SystemReading&)> sampled_;
  mutable std::mutex mutex_;  // guards source_ and samples_
  std::condition_variable_any wake_;
  std::vector<SystemReading> samples_;
  std::jthread thread_;  // last: it is joined before what it uses goes away
};

}  // namespace sftbench
