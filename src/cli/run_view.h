// What `run` shows of a measurement while it trains: the log of the run, and a progress line.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/progress.h"
#include "cli/run_log.h"
#include "cli/training_log.h"
#include "sftbench/launch/backend.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

class RunView {
 public:
  // Opens the log: throws InputError when it cannot be written. `job` and `backend` must outlive
  // the view.
  RunView(const TrainingJob& job, const Backend& backend, const std::filesystem::path& log,
          bool shows_progress);

  // Before the engine is loaded.
  void begin();

  std::vector<TrainObserver*> observers();

  // Logs why the measurement has no figures.
  void end(const Measurement& measurement);

 private:
  const TrainingJob& job_;
  bool starts_ranks_;
  RunLog log_;
  StepLog step_log_;
  std::optional<TrainingLog> training_log_;
  std::optional<Progress> progress_;
  std::optional<ClearsProgress> clears_progress_;
};

}  // namespace sftbench
