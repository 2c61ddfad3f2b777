// Tells people on stderr how loading and training go: a line that renews itself on a terminal, with
// a bar while it trains, else a line every few seconds.
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
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What happens before there is an engine that could tell.
  void phase(const std::string& text);

  // Takes away a terminal's line that is written over, so that others can write.
  void clear_line();

  void on_load(const LoadEvent& load) override;
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_train_end(const TrainEnd& end) override;

  // What stands in the line after `event`, without bar and line end:
  // "step 3/64, loss 2.345, 1.23 k tokens/s, MFU 41.0 %, 12.5 GiB, 1:23 left".
  std::string line(const StepEvent& event) const;

 private:
  void show_waiting(const std::string& text);
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
  double made_s_;      // steady_seconds(), as shown_s_
  double shown_s_ = 0;
  bool shown_ = false;
  enum class OpenLine { kNone, kWaiting, kBar } open_line_ = OpenLine::kNone;  // of a terminal
};

// An observer that stands before those that log.
class ClearsProgress : public TrainObserver {
 public:
  explicit ClearsProgress(Progress& progress) : progress_(progress) {}
  void on_train_begin(const TrainBegin&) override { progress_.clear_line(); }
  void on_evaluation(const EvaluationEvent&) override { progress_.clear_line(); }

 private:
  Progress& progress_;
};

}  // namespace sftbench
