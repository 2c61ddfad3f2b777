// When something is due that a run does every so often.
#pragma once

#include <cmath>

#include "engine/trained_state.h"
#include "sftbench/variants/interval_strategy.h"

namespace sftbench {

// After the step that `progress` ends with. The end of a run is up to who asks.
inline bool ends_interval(IntervalStrategy strategy, int64_t steps,
                          const TrainingProgress& progress) {
  switch (strategy) {
    case IntervalStrategy::kEpoch:
      return progress.epoch == std::floor(progress.epoch);
    case IntervalStrategy::kNo:
      return false;
    case IntervalStrategy::kSteps:
      return progress.steps % steps == 0;
  }
  return false;
}

}  // namespace sftbench
