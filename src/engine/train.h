// The step loop.
#pragma once

#include <functional>
#include <vector>

#include "engine/training_run.h"
#include "sftbench/measure/events.h"

namespace sftbench {

// Trains until the planned steps are done or an observer stops it; tells the observers.
// RunError: kKilled when `interrupted` says so; kData when a step has nothing to learn from;
// kInternal when the loss or its gradient is not finite.
void train(TrainingRun& run, const std::vector<TrainObserver*>& observers,
           const std::function<bool()>& interrupted);

}  // namespace sftbench
