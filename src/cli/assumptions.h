// What a prediction takes for granted of a training, with the options that change it.
#pragma once

#include <string>

#include "cli/definition_list.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// The program, the precision, the method and the optimizer. `stack`: --stack.
Definitions assumptions_of(const TrainingJob& job, const std::string& stack);

// How an entity's step is divided and what is recomputed: what a recommendation chooses itself.
std::string step_text(const TrainingJob& job);

}  // namespace sftbench
