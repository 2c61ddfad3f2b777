// Tells people on stderr how training goes: a bar that renews itself on a terminal, else a line
// every few seconds.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "sftbench/base/quantity_text.h"
#include "sftbench/measure/events.h"
#include "sftbench/measure/mfu.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

class Progress : public TrainObserver {
 public:
  using Peak = std::function<DevicePeak(const std::string& dtype)>;

  // `terminal`: `out` shows a line that is overwritten; else lines are appended.
  Progress(std::ostream& out, bool terminal, const TrainingJob& job, Peak peak);

  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_train_end(const TrainEnd& end) override;

  // What stands in the line after `event`, without bar and line end:
  // "step 3/64, loss 2.345, 1.23 k tokens/s, MFU 41.0 %, 12.5 GiB, 1:23 left".
  std::string line(const StepEvent& event) const;

 private:
  double seconds_left(const StepEvent& event) const;
  std::string bar() const;

  std::ostream& out_;
  bool terminal_;
  int devices_;
  double stop_after_s_;
  Peak peak_of_;
  DevicePeak peak_;
  TrainBegin begin_;
  MeasuredSpan span_;  // of the steps so far
  double shown_s_ = 0;
  bool shown_ = false;
};

}  // namespace sftbench
