// What a results folder says about predictions: its own results that are valid and not simulated,
// and the evidence that `import` put there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/oracle.h"
#include "sftbench/advise/residuals.h"

namespace sftbench {

// The job of a result as it really ran, with rows of the mean length of its micro-batches.
struct OwnMeasurement {
  std::string file;
  TrainingJob job;
  double step_s = 0;         // the median behind the warm-up steps and the first one
  double mean_step_s = 0;    // over the same steps as the means of their phases in `extra`
  int64_t slowest_step = 0;  // of those, from 1
  double slowest_step_s = 0;
  std::optional<double> allocated_bytes = std::nullopt;  // of a rank, at most
  std::optional<double> gpu_watts = std::nullopt;        // of one GPU, the mean of its samples
};

// InputError when the file is no valid result with steps.
OwnMeasurement read_own_measurement(const std::string& path);

struct OwnEvidence {
  std::vector<Residual> residuals;
  std::map<std::string, double> gpu_watts;  // by GPU: the median of its results
  int64_t results = 0;                      // that were compared
  int64_t imported = 0;                     // rows of evidence that were compared
  // Files that could not be used, and measurements of one configuration that contradict each other.
  std::vector<std::string> warnings;
};

// InputError when the folder has neither results nor evidence.
OwnEvidence read_own_evidence(const std::string& folder, Oracle& oracle, const Catalog& catalog);

// The files of a folder's subfolder `evidence`, in their order; of a file, that.
std::vector<std::string> evidence_files(const std::string& place);

}  // namespace sftbench
