// Trains one job in this process under measurement and says how it ended, as a Measurement with one
// of the three outcomes. The path of a run: run_job -> Engine::train -> events -> observers ->
// measured_properties.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/engine/engine.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/measure/mfu.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

// Thrown when the user ended the run: there is no outcome then, and nothing is kept.
class RunInterrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

struct RunSettings {
  std::vector<TrainObserver*> observers;  // besides those that measure
  std::function<bool()> interrupted = [] { return false; };
  std::function<DevicePeak(const std::string& dtype)> peak = [](const std::string&) {
    return DevicePeak{{}, "no catalogue of devices was given"};
  };
  const Nvml* nvml = nullptr;  // needed when the job uses GPUs
  std::string log;             // path that a reason names
  std::string command;         // that repeats the measurement
  std::string backend = kBackendLibtorch;
  // Where readings of the machine come from; none: of this machine, and `nvml`.
  std::function<std::unique_ptr<SystemSource>(int gpus)> system_source;
  // Once training has ended: what the processes of ranks 1, 2, ... have sampled, where an outside
  // launcher started them.
  std::function<std::vector<ProcessSamples>()> other_ranks = [] {
    return std::vector<ProcessSamples>();
  };
  // The engine stands and training begins; the measurement has no outcome yet.
  std::function<void(const Measurement&)> begun = [](const Measurement&) {};
};

// Never throws for what ends a measurement (that becomes its reason); throws RunInterrupted.
// `load` is called once, inside: an engine that cannot be loaded is a failed measurement.
Measurement run_job(const TrainingJob& job, const std::function<Engine&()>& load,
                    const RunSettings& settings);

// A measurement of `job` that has not begun: names, inputs, command, program, host, start time.
Measurement begin_measurement(const TrainingJob& job, const RunSettings& settings);

// What the figures were taken with and on: program, libraries, host. `engine` is what
// Engine::environment() said, or {} when none was loaded; what it does not say is null.
Json environment_json(const Json& engine, const Nvml* nvml);

}  // namespace sftbench
