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
  PredictedCase at;
  bool fitted = false;  // the machine's constants come from this model
  // Whether the 90 % interval holds what was measured, as if nothing of this model had been
  // compared.
  std::optional<bool> time_covered, memory_covered;
  Fit fit = Fit::kUnknown;
};

std::vector<ScoredRow> score(const std::vector<Evidence>& rows, Oracle& oracle,
                             const Catalog& catalog);

// Sets the coverage of all rows but those that a GPU's constants were fitted on.
void judge_coverage(std::vector<ScoredRow>& rows, const ResidualTable& table);

// ln(measured / predicted) of what ran.
std::vector<Residual> residuals_of(const std::vector<ScoredRow>& rows);

// Of errors e: the median and the 90th percentile of |e|, the shares of |e| within 10 and 20 %, and
// the median of e.
struct ErrorSummary {
  int64_t rows = 0;
  double median = 0, p90 = 0, within_10 = 0, within_20 = 0, bias = 0;
};

ErrorSummary summarize(std::vector<double> errors);

// All rows, and by file, GPU, method and model: time and memory. `covered_%`: of what was measured,
// the share in its interval, which promises 90.
Table score_table(const std::vector<ScoredRow>& rows);

// What ran and what died, against what was said of it.
Table verdict_table(const std::vector<ScoredRow>& rows);

// Each row: source, configuration, measured, predicted, errors.
Table scored_rows(const std::vector<ScoredRow>& rows);

}  // namespace sftbench
