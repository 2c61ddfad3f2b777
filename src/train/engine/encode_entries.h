// What texts and images have in common on their way into batches.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/work_count.h"
#include "sftbench/data/step_plan.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// `units`: what batches are made of, entries or packs.
StepPlan plan_steps(const TrainingJob& job, int64_t units);

// `rank` of data_ranks(). What it has to encode of them: what it reads and, to find the largest
// batch, what all do.
std::vector<int64_t> units_to_encode(const TrainingJob& job, StepPlan& plan, int64_t rank);

// Of a completed tokenizer.
int64_t pad_id_of(const Tokenizer& tokenizer);

// Of activated LoRA; empty without. RunError(kUnsupported) when its text has no tokens.
std::vector<int32_t> invocation_of(const TrainingJob& job, const Tokenizer& tokenizer);

// What the counts of a cache are counts of. Nothing has to be counted where ids are given.
std::string counted_text(const DataSource& data);

// Where the cache's folder cannot be written, the next run counts again, as this one did.
inline void keep(TokenCountCache& counts) {
  try {
    counts.save();
  } catch (const InputError&) {
  }
}

// Tokenizes, remembering the counts in the source's cache when it has one. RunError(kData) with
// file and line of what is wrong with the entries.
template <typename Dataset>
void encode_entries(Dataset& dataset, const std::vector<int64_t>& entries, const DataSource& source,
                    const std::string& tokenizer_directory, int threads, WorkCount& work) {
  try {
    if (source.token_cache_directory.empty() || source.pretokenized) {
      return dataset.encode(entries, threads, nullptr, &work);
    }
    TokenCountCache counts(source.token_cache_directory,
                           {.tokenizer_digest = tokenizer_digest(tokenizer_directory),
                            .dataset_digest = digest_data(source.path),
                            .text_field = counted_text(source),
                            .entries = dataset.size()});
    dataset.encode(entries, threads, &counts, &work);
    keep(counts);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kData, error.what());
  }
}

}  // namespace sftbench
