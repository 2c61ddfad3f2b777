// The sets of data that a job trains on: one, or several that are mixed.
#pragma once

#include <string>
#include <vector>

#include "sftbench/data/text_dataset.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct DataSet {
  DataSource source;
  double share = 0;     // of the mixture; 0 in all: they stand one behind the other
  double held_out = 0;  // of its entries, to be evaluated
  double trained = -1;  // of its entries; 0: it is evaluated alone; below 0: all others
};

// InputError naming the key of job.data.mixture that is missing, unknown or of the wrong type.
std::vector<DataSet> data_sets(const TrainingJob& job);

// Numbers of entries, the sets one behind the other.
struct DividedEntries {
  std::vector<int64_t> training;  // in the order in which an epoch finds them before it shuffles
  std::vector<int64_t> evaluation;
};

// Which entries of the sets of data_sets(job) are trained on, mixed as the job says, and which are
// held out. `sizes`: of the sets, in entries. RunError(kData) where none is left to train on.
DividedEntries divide_entries(const TrainingJob& job, const std::vector<DataSet>& sets,
                              const std::vector<int64_t>& sizes);

// What entries of the set are, without the chat template's time and origin.
TextDatasetOptions text_options(const DataSource& data, int64_t vocabulary);

// Of conversations, in a prediction that has found none.
bool lacks_chat_template(const TrainingJob& job);

// When a mixture ends, by the name of data/mixing.h.
std::string stopping_strategy(const DataSource& data);

}  // namespace sftbench
