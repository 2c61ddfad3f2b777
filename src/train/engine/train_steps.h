// The step loop.
#pragma once

#include <functional>
#include <vector>

#include "engine/training_run.h"
#include "sftbench/measure/events.h"

namespace sftbench {

// Trains, as one rank of `group`, until the planned steps are done or an observer stops it; tells
// the observers. RunError: kKilled when `interrupted` says so; kData when a step has nothing to
// learn from; kInternal when the loss is not finite, or its gradient without a loss scale to blame;
// kWeights when the model's files are the cause (nonfinite.h says what the message holds).
void train_steps(TrainingRun& run, RankGroup& group, const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted);

}  // namespace sftbench
