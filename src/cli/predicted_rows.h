// A prediction of rows as data make them. The run's largest micro-batch decides its memory, and the
// average length of rows its time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/definition_list.h"
#include "cli/worst_batch.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/base/json.h"

namespace sftbench {

std::string in_gib(double bytes);        // "12.5 GiB"
std::string in_seconds(double seconds);  // "3.44 s"

// Without data all rows are full, and the two are one.
struct PredictedRows {
  Prediction time, memory;
  std::optional<WorstBatch> worst;

  std::string words() const;  // "rows of 4096 tokens, all of them full"
  MeasurementRequest alternatives(MeasurementRequest of) const;  // with rows as long as the longest
};

// `lengths`: tokens of the entries; empty: not known.
PredictedRows predicted_rows(const Prediction& full, const std::vector<int64_t>& lengths,
                             Oracle& oracle);

// What nine of ten measurements are expected to be, and what that rests on.
void put_intervals(const PredictedRows& rows, const Uncertainty& uncertainty, Definitions& lines);

// The micro-batch that decides about memory.
void put_worst_batch(const PredictedRows& rows, const Uncertainty& uncertainty, Definitions& lines,
                     Json& json);

}  // namespace sftbench
