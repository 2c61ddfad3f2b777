// Two directories of results side by side: configurations are joined on their experiment and all of
// their inputs, and a difference counts only when it is larger than the noise (noise.h).
#pragma once

#include <string>
#include <vector>

#include "sftbench/results/report_table.h"
#include "sftbench/results/scan.h"

namespace sftbench {

struct CompareOptions {
  std::string property = "dataset_tokens_per_second";  // measured property or figure
  double confidence = 0.95;
  bool with_ids = false;  // identifier and experiment_id as columns
};

// An input that has one value in all results of a folder, and another one in all of the other
// folder. "experiment" is one, too.
struct FolderDifference {
  std::string input, here, other;
};

struct Comparison {
  // One row per configuration of both sides: the inputs in which they differ; status; value and
  // other (medians), ratio, its interval, n and n_other, noise ("repeats", "steps"), and
  //   verdict  "higher", "lower", "no difference", or why there is none: "not valid", "status
  //            changed", "not measured", "noise unknown" (single runs of fewer than three steps, or
  //            of a property that says nothing about steps)
  ReportTable table;
  // Where no configuration is in both folders: what keeps them apart. Configurations that are alike
  // but for it are compared.
  std::vector<FolderDifference> apart;
  size_t both = 0, only_here = 0, only_other = 0;  // configurations
  size_t judged = 0;                               // with an interval
  size_t higher = 0, lower = 0;
  double mean_ratio = 1;  // geometric, over the judged ones
};

// `here` and `other` outlive the result. InputError, with the nearest spelling, when neither side
// has a number under that property.
Comparison compare_results(const StoreScan& here, const StoreScan& other,
                           const CompareOptions& options);

}  // namespace sftbench
