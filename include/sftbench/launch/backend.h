// What trains a job, and the machine whose readings its measurement takes. One interface for
// libtorch in this process, for ranks that this process starts, for a rank that a launcher started,
// and for a simulation (simulate/backend.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/cluster/launched_ranks.h"
#include "sftbench/engine/engine.h"
#include "sftbench/launch/ranked_engine.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/measure/mfu.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

class Backend {
 public:
  virtual ~Backend() = default;

  // Throws RunError when the job's devices are missing or differ from the job. Loads no engine.
  virtual void check_devices() const = 0;

  // A warning when memory cannot suffice (launch/memory_preflight.h).
  virtual std::optional<std::string> memory_warning() const = 0;

  // The first call loads or starts the engine. Throws RunError when that is impossible.
  virtual Engine& engine() = 0;

  // Whether the engine trains in processes that it starts.
  virtual bool starts_ranks() const { return false; }

  // NVIDIA's driver. Null when there is none, or when nothing reads it.
  virtual const Nvml* nvml() const = 0;

  // GPUs of this node that the job's ranks use.
  virtual int local_gpus() const = 0;

  // The source of the readings of this machine and of its first `gpus` GPUs.
  virtual std::unique_ptr<SystemSource> system_source(int gpus) const = 0;

  // Peak of one of the job's devices in `dtype`, or why it is unknown.
  virtual DevicePeak peak(const std::string& dtype) const = 0;

  // After training: the samples of ranks 1, 2, ... where a launcher started them.
  virtual std::vector<ProcessSamples> other_ranks() { return {}; }
};

// Trains on one rank in this process. `job` must outlive the backend.
std::unique_ptr<Backend> make_local_backend(const TrainingJob& job);

// Starts the job's ranks as processes on this node. The backend sets `spec.gpus`.
std::unique_ptr<Backend> make_ranked_backend(const TrainingJob& job, RankedSpec spec);

// Trains as this rank of `ranks`, with what `own` trains with. Loads that engine now: throws
// RunError. Both arguments must outlive the backend.
std::unique_ptr<Backend> make_launched_backend(Backend& own, LaunchedRanks& ranks);

}  // namespace sftbench
