// What has to be the same in a run that goes on from a checkpoint: all that its next step depends
// on beside the saved state. How many ranks share the work, and by which strategy, is not part of
// it, nor is how long the run shall be. Files are known by what is in them, wherever they stand.
#pragma once

#include <string>
#include <vector>

#include "sftbench/plan/training_job.h"

namespace sftbench {

// Name -> value, flat. Reads all of the dataset's file and, under adapters and virtual tokens, of
// the weights' files, unless it knows their digests. InputError when one of them is not there.
Json identity_of(const TrainingJob& job);

// Tells a file of evaluation data from others, by its content. Empty: the job evaluates none.
// InputError.
std::string evaluated_data(const TrainingJob& job);

// One short text for all of it.
std::string digest_of(const Json& identity);

// "optimizer was adamw_torch, and is sgd": one for each difference. Names alone are none.
std::vector<std::string> differences(const Json& saved, const Json& now);

}  // namespace sftbench
