// The member `extra` of a valid measurement: what a run recorded beside its measured properties.
// docs/reference/results.md lists every field.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sftbench/measure/measured_properties.h"
#include "sftbench/measure/mfu.h"
#include "sftbench/measure/run_record.h"
#include "sftbench/measure/stop_rules.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// A run that ended well, as its figures need it.
struct TrainedRun {
  const RunRecord& record;
  int64_t warmup_steps = 0;
  MeasuredSpan span;                      // the steps after the warm-up
  std::vector<ProcessSamples> processes;  // sampled during the span
  int devices = 1;                        // GPUs, or CPU ranks
  DevicePeak peak;                        // of one device, in the dtype of the GEMMs
  std::optional<KnownRate> known_rate;    // where that ended the run
};

Json trained_extra(const TrainingJob& job, const TrainedRun& run);

}  // namespace sftbench
