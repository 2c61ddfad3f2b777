// One measurement in this process, from a TrainingJob on: what `run` and the child of a sweep
// share. It holds what lives as long as the measurement: the driver's library and the engine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/cluster/launched_ranks.h"
#include "sftbench/launch/ranked_engine.h"
#include "sftbench/launch/run_job.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/simulate/engine.h"

namespace sftbench {

struct BackendChoice {
  std::string name = kBackendLibtorch;
  std::vector<std::string> simulate;  // REQUIRES: checked by check_backend
  int sample = 1;
  int attempt = 1;
};

// "CODE: message", and the evidence in a line of its own.
std::string reason_text(ReasonCode code, const std::string& message, const std::string& evidence);

class MeasuringSession {
 public:
  // `job` outlives it.
  MeasuringSession(const TrainingJob& job, BackendChoice backend);

  // To be completed before train(): observers, interrupted, begun, log, command.
  RunSettings& settings() { return settings_; }

  // Whether this process starts others that train, and what it tells them; to be completed as well.
  bool starts_ranks() const {
    return !simulated() && job_.device.ranks > 1 && launched_ == nullptr;
  }
  RankedSpec& ranked() { return ranked_; }

  // That memory cannot suffice (launch/memory_preflight.h), before anything takes any.
  std::optional<std::string> memory_warning() const;

  // RunError when the devices are not there or others; then makes the dataset, if asked to and it
  // is not there: `announce` gets a line before. InputError when it cannot be written.
  void prepare(bool generate_dataset, const std::function<void(const std::string&)>& announce);

  // Loads the engine, to train as one of the ranks that an outside launcher started.
  void join(LaunchedRanks& ranks);

  // Throws RunInterrupted.
  Measurement train();

  // As a launched rank other than 0: trains, and tells what it has seen. RunError.
  RankRecord follow();

  // That of a measurement that did not come so far.
  Measurement ended(const ErrorClass& error) const;

 private:
  bool simulated() const { return backend_.name == kBackendSimulate; }
  Engine& engine();
  std::unique_ptr<Engine> make_engine();

  const TrainingJob& job_;
  BackendChoice backend_;
  std::string no_nvml_;
  std::unique_ptr<Nvml> nvml_;
  LaunchedRanks* launched_ = nullptr;
  std::unique_ptr<Engine> own_engine_;  // that engine_ trains with in a launcher's group
  std::unique_ptr<Engine> engine_;
  RunSettings settings_;
  RankedSpec ranked_;
};

}  // namespace sftbench
