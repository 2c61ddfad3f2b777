// Which of a model's parameters train, and what adapters it has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/families/lora_fit.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

inline bool trains_weights(const TrainingJob& job) {
  return row_of(job.tuning).trains_weights;
}

// Whether the model's own parameter trains, with all others or beside adapters. `parameter`: as a
// shape names it.
bool trains(const TrainingJob& job, const std::string& parameter);

// Whether a linear of the layers has an adapter, and of which rank, in the mean of the layers.
bool is_target(const LoraPlan& lora, const std::string& linear);
int64_t layer_rank(const TrainingJob& job, const std::string& linear);

// Embedding and output projection, where they have adapters, with their ranks.
std::vector<AdaptedLinear> adapted_tokens(const TrainingJob& job, const ModelConfig& config);

}  // namespace sftbench
