// Trains one job under measurement and says how it ended, as a Measurement with one of the three
// outcomes. The path of a run: measure_job -> Engine::train_job -> train_steps, whose events go to
// the observers.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sftbench/cluster/launched_ranks.h"
#include "sftbench/launch/backend.h"
#include "sftbench/measure/events.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

// Thrown when the user ended the run. Such a run has no outcome, and nothing of it is kept.
class RunInterrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// What a measurement needs beside the job and its backend.
struct MeasureOptions {
  std::string command = {};                    // that repeats the measurement
  std::string log = {};                        // path that a reason names
  std::vector<TrainObserver*> observers = {};  // besides those that measure
  std::function<bool()> interrupted = [] { return false; };
  std::function<void(const SystemReading&)> sampled = {};  // as SystemSampler's
  std::filesystem::path series =
      {};  // file for what was sampled (results/sample_series.h); empty: none
  // Called once the engine stands, before training. The measurement has no outcome yet.
  std::function<void(const Measurement&)> begun = [](const Measurement&) {};
};

// Before measure_job(): throws RunError when the job's devices are missing. Then makes the dataset,
// if asked to and if its file does not exist, after passing one line to `announce`. Throws
// InputError when it cannot be written.
void prepare_job(const TrainingJob& job, const Backend& backend, bool generate_dataset,
                 const std::function<void(const std::string&)>& announce);

// Never throws for what ends a measurement, which becomes its reason. An engine that cannot be
// loaded is a failed measurement. Throws RunInterrupted.
Measurement measure_job(const TrainingJob& job, Backend& backend, const MeasureOptions& options);

// As a launched rank other than 0: trains, and returns what it sampled. Of the options it uses the
// observers and `interrupted`. Throws RunError.
RankRecord follow_job(const TrainingJob& job, Backend& backend, const RankPlace& place,
                      const MeasureOptions& options);

// A measurement that has not begun: names, inputs, command, program, host, start time. `nvml` may
// be null.
Measurement begin_measurement(const TrainingJob& job, const std::string& command, const Nvml* nvml);

// A measurement that ended with `error`, with the command and the log of `options`.
Measurement ended_measurement(const TrainingJob& job, const ErrorClass& error,
                              const MeasureOptions& options, const Nvml* nvml);

// What the figures were taken with and on: program, libraries, host. `engine` is what
// Engine::environment() returned, or {} when none was loaded. What it does not say is null.
Json environment_json(const TrainingJob& job, const Json& engine, const Nvml* nvml);

}  // namespace sftbench
