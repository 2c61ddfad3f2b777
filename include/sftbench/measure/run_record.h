// Everything that a run told its observers, kept whole: the figures are computed from it
// afterwards, by pure functions, so that each of them can be checked by hand.
#pragma once

#include <vector>

#include "sftbench/measure/events.h"

namespace sftbench {

struct RunRecord {
  TrainBegin begin;
  std::vector<StepEvent> steps;
  std::vector<EvaluationEvent> evaluations;
  TrainEnd end;
  bool complete = false;                // on_train_end came
  double first_step_process_age_s = 0;  // age of the process when the first step had ended
};

class RunRecorder : public TrainObserver {
 public:
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_train_end(const TrainEnd& end) override;

  const RunRecord& record() const { return record_; }

 private:
  RunRecord record_;
};

// What one rank did in the measured steps, by its own clock and count.
struct RankSpan {
  double seconds = 0;
  int64_t samples = 0;
  TokenCounts tokens;
};

// The steps that figures are about: all of them, less the warm-up.
struct MeasuredSpan {
  std::vector<StepEvent> steps;
  double begin_s = 0;  // of the first of them
  double end_s = 0;    // of the last
  double pause_s = 0;  // between them, in which the run evaluated or wrote files
  TokenCounts tokens;
  int64_t samples = 0;
  double attention_flops = 0;
  std::vector<RankSpan> ranks;  // none: one rank, of which the rest tells

  double seconds() const { return end_s - begin_s - pause_s; }

  // Sum over ranks of what each of them did per second: rank 0's figure times their number would
  // take for granted that all had the same batches and the same time.
  template <typename Count>
  double per_second(Count count) const {
    if (ranks.empty()) {
      return static_cast<double>(count(RankSpan{seconds(), samples, tokens})) / seconds();
    }
    double sum = 0;
    for (const RankSpan& rank : ranks) sum += static_cast<double>(count(rank)) / rank.seconds;
    return sum;
  }
};

// REQUIRES: the rank took more steps than the warm-up.
RankSpan span_of(const RankReport& rank, int64_t warmup_steps);

// Ranks as the engine reported them at the end, whose counts add up to those of the steps; a record
// without reports is one rank's. REQUIRES: the record holds more steps than the warm-up.
MeasuredSpan measured_span(const RunRecord& record, int64_t warmup_steps);

}  // namespace sftbench
