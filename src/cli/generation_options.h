// Texts that the model writes before and after training: what a user reads to see that it has
// learned.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "sftbench/plan/training_job.h"

namespace sftbench {

struct GenerationOptions {
  std::optional<int64_t> texts, max_new_tokens;
};

void add_generation_options(CLI::App& command, GenerationOptions& options);

// InputError where nothing is held out, or where the model has to know what comes before it writes.
void apply_generation_options(const GenerationOptions& options, TrainingJob& job);

}  // namespace sftbench
