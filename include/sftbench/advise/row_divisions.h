// Among how many ranks the rows of one configuration are best divided (context parallelism). Each group of ranks reads as
// many entries as before, so that batch_size follows from the division.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/oracle.h"

namespace sftbench {

struct RowDivision {
  int64_t context_ranks = 1;
  int64_t batch_size = 1;
  std::optional<Prediction> prediction;
  std::string refusal;  // where there is none

  bool fits() const { return prediction && prediction->fit == Fit::kFits; }
};

// One for each divisor of the ranks of `job`, which `request` resolves to; ascending.
std::vector<RowDivision> row_divisions(const MeasurementRequest& request, const TrainingJob& job,
                                       Oracle& oracle);

// Of those that fit, the one that computes most positions a second; of equals the smallest. Null: none fits.
const RowDivision* best_division(const std::vector<RowDivision>& divisions);

}  // namespace sftbench
