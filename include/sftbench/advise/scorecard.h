// How far predictions are from what was measured: medians over evidence, in groups.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/evidence.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/results/table.h"

namespace sftbench {

// One row of evidence beside its prediction.
struct ScoredRow {
  Evidence evidence;
  std::string gpu;
  std::string method;
  std::string model;
  std::string problem;                 // why it is not predicted; empty: it is
  std::optional<double> time_error;    // predicted over measured step time, less 1
  std::optional<double> memory_error;  // the same of allocated bytes
  double stated = 0;                   // MachineModel::error_p90
  Fit fit = Fit::kUnknown;
};

std::vector<ScoredRow> score(const std::vector<Evidence>& rows, Oracle& oracle,
                             const Catalog& catalog);

// Of errors e: the median and the 90th percentile of |e|, the shares of |e| within 10 and 20 %, and
// the median of e.
struct ErrorSummary {
  int64_t rows = 0;
  double median = 0, p90 = 0, within_10 = 0, within_20 = 0, bias = 0;
};

ErrorSummary summarize(std::vector<double> errors);

// All rows, and by file, GPU, method and model: time and memory. `covered_%`: of steps on GPUs with
// an error_p90, those within it; 90 is what it promises.
Table score_table(const std::vector<ScoredRow>& rows);

// What ran and what died, against what was said of it.
Table verdict_table(const std::vector<ScoredRow>& rows);

// Each row: source, configuration, measured, predicted, errors.
Table scored_rows(const std::vector<ScoredRow>& rows);

}  // namespace sftbench
