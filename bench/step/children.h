// What the processes that step_bench starts do. Each prints one JSON line on stdout.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/plan/training_job.h"

namespace sftbench::bench {

// SmolLM2-135M's shapes with random weights on `entries` synthetic texts, each at least `length`
// tokens. Writes the texts to `dataset_path`.
TrainingJob smollm2_job(const std::string& dtype, int64_t length, int64_t steps, bool checkpointing,
                        const std::string& dataset_path);

// Trains with the engine, as `sftbench run` does. {step_seconds, losses, first_step_process_age_s,
// peak_rss_bytes}
std::string run_engine(const TrainingJob& job);

// The same work with stock operators, allocator and optimiser (plain_model.h). Same output.
std::string run_plain(const std::string& dtype, int64_t length, int64_t steps);

// One forward and backward pass with and without checkpointing, each alone:
// {kept, checkpointed}: bytes at the peak beyond parameters and gradients.
std::string measure_activations(const std::string& dtype, int64_t length,
                                const std::string& dataset_path);

}  // namespace sftbench::bench
