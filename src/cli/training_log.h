// training_logs.jsonl of an --output-dir, as fms-hf-tuning's FileLoggingCallback writes it: a line
// for each mean of the training losses since the line before, and one for each evaluation. A run
// that goes on adds to it, and another training begins a new one.
#pragma once

#include <filesystem>
#include <string>

#include "sftbench/measure/events.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

class TrainingLog : public TrainObserver {
 public:
  // REQUIRES: an output directory. It is made when it is missing.
  explicit TrainingLog(const SavePlan& plan);

  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;
  // A run that was stopped early has an epoch that it did not end.
  void on_train_end(const TrainEnd& end) override;

 private:
  void set_aside(const TrainBegin& begin);
  void fail(const std::string& problem);
  bool is_due(const StepEvent& event) const;
  void write_losses();
  void write(const char* name, double epoch, int64_t step, double value);

  std::filesystem::path path_;
  IntervalStrategy strategy_;
  int64_t steps_;
  double ratio_;
  int64_t total_steps_ = 0;
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  StepEvent last_;
  bool broken_ = false;  // something failed, and that was said
};

}  // namespace sftbench
