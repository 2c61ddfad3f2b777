// Prompt tuning (Lester et al. 2021) as peft does it: trained rows stand in front of every
// sequence's embeddings, in float32 whatever the model's dtype, and the model is frozen.
#pragma once

#include <memory>

#include "sftbench/tuning/tuning.h"

namespace sftbench {

std::unique_ptr<Tuning> make_prompt_tuning(const TuningOptions& options);

}  // namespace sftbench
