// Everything that a run told its observers, kept whole: the figures are computed from it
// afterwards, by pure functions, so that each of them can be checked by hand.
#pragma once

#include <vector>

#include "sftbench/measure/events.h"

namespace sftbench {

struct RunRecord {
  TrainBegin begin;
  std::vector<StepEvent> steps;
  TrainEnd end;
  bool complete = false;                // on_train_end came
  double first_step_process_age_s = 0;  // age of the process when the first step had ended
};

class RunRecorder : public TrainObserver {
 public:
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_train_end(const TrainEnd& end) override;

  const RunRecord& record() const { return record_; }

 private:
  RunRecord record_;
};

// The steps that figures are about: all of them, less the warm-up.
struct MeasuredSpan {
  std::vector<StepEvent> steps;
  double begin_s = 0;  // of the first of them
  double end_s = 0;    // of the last
  TokenCounts tokens;
  int64_t samples = 0;
  double attention_flops = 0;

  double seconds() const { return end_s - begin_s; }
};

// REQUIRES: the record holds more steps than the warm-up.
MeasuredSpan measured_span(const RunRecord& record, int64_t warmup_steps);

}  // namespace sftbench
