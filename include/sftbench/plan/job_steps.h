// How many optimization steps a job has, and what can be told of its dataset by its id alone: a
// sweep orders cells, and a simulation runs, before any dataset is there.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/data/step_plan.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// Of a dataset with so many rows: entries, or packs of them.
StepPlanOptions step_plan_options(const TrainingJob& job, int64_t rows);

// "...-entries-256": 256. 4096 where the id does not say; at least 1.
int64_t entries_by_id(const std::string& dataset_id);

// Tokens of an entry, before truncation: "news-tokens-128kplus-...", "news-chars-1024-...", whose
// input and output have so many characters each. 16384 where the id does not say.
int64_t tokens_by_id(const std::string& dataset_id);

// Tokens of an entry that train, when all are as long as the id says.
int64_t kept_tokens_by_id(const TrainingJob& job);

// Such entries that share a row. 1: padding packs none.
int64_t entries_per_row_by_id(const TrainingJob& job);

int64_t steps_by_id(const TrainingJob& job);

}  // namespace sftbench
