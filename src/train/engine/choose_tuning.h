// The tuning method of a job, and what it cannot be combined with.
#pragma once

#include <memory>

#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/tokenizer.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {

// RunError(kUnsupported): where activated LoRA cannot be.
void require_invocation_fits(const TrainingJob& job);

// RunError(kUnsupported): a prompt without tokens, or in front of rows of several entries.
std::unique_ptr<Tuning> choose_tuning(const TrainingJob& job, const Tokenizer& tokenizer);

}  // namespace sftbench
