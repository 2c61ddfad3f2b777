// Tokenizer and text of a job, tokenized ahead of the timed span.
#pragma once

#include <string>
#include <vector>

#include "engine/prepare_text.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// The model's tokenizer, or the one that ships, with whatever special tokens it lacks.
Tokenizer prepare_tokenizer(const ModelSource& model);

// The same as it was given.
Tokenizer own_tokenizer(const ModelSource& model);

// Where the tokenizer came from, as results say it.
std::string tokenizer_origin(const ModelSource& model);

// Datasets with every entry encoded that this rank will read. InputError: what is wrong with a
// file. `work` counts entries.
PreparedData prepare_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                          int64_t rank, WorkCount& work);

}  // namespace sftbench
