// The model card of what a run saves: what was trained, on what, how far and by which arguments.
#pragma once

#include <string>

#include "engine/trained_state.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// `peft_config`: null where the model itself is trained. `progress`: how far the saved weights were
// trained. The same training leaves the same bytes, resumed or not: no time, duration or folder of
// results is named.
std::string saved_card_text(const TrainingJob& job, const Json& peft_config,
                            const TrainingProgress& progress);

}  // namespace sftbench
