// What a step of a job would take, by arithmetic alone (simulate/engine.h names the sources).
#pragma once

#include "sftbench/measure/events.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct JobCost {
  TrainBegin begin;        // counts of steps and parameters
  int64_t vocabulary = 0;  // entries
  // Of every optimization step:
  int64_t samples = 0;
  TokenCounts tokens;
  double attention_flops = 0;     // as StepEvent counts them
  double flops_per_device = 0;    // all that is computed, recomputation included
  double device_bytes = 0;        // per device: the GPU's memory, or the rank's on a CPU
  double device_limit_bytes = 0;  // of a GPU that config/machines.yaml knows; 0: no limit is known
  double step_s = 0;              // on such a GPU, as `predict` says; 0: it is not known
  double host_bytes = 0;          // of the machine, for all its ranks
};

// InputError when the model's config.json has not what counting its parameters needs.
JobCost cost_of(const TrainingJob& job);

}  // namespace sftbench
