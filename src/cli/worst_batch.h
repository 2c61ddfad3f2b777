// The micro-batch of a run that takes the most memory, found in the run's own order of entries.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/advise/odds.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct WorstBatch {
  int64_t steps = 0;  // of the run
  int64_t step = 0;   // from 1, as training counts them
  int64_t micro_batch = 0, rank = 0;
  int64_t rows = 0;
  int64_t length = 0;      // of each row, padding included
  int64_t entry = 0;       // the longest, counted from 0
  double mean_length = 0;  // of all rows of the run, padding included
};

// `lengths` are the tokens of the dataset's entries. Rows of packed batches are as long as a row
// may be; with max_length all batches are alike, and the first is named.
WorstBatch worst_batch(const TrainingJob& job, const std::vector<int64_t>& lengths);

// The job with all micro-batches like that one.
TrainingJob job_of(const WorstBatch& worst, TrainingJob job);

}  // namespace sftbench
