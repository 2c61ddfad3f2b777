// What a run does every so often, saving a checkpoint or evaluating: transformers'
// IntervalStrategy.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "sftbench/base/named.h"

namespace sftbench {

enum class IntervalStrategy {
  kEpoch,  // after each epoch, and at the end
  kNo,
  kSteps,  // every so many optimization steps, and at the end
};

struct IntervalStrategyRow {
  IntervalStrategy kind;
  const char* name;
};

inline constexpr std::array kIntervalStrategies = {
    IntervalStrategyRow{IntervalStrategy::kEpoch, "epoch"},
    IntervalStrategyRow{IntervalStrategy::kNo, "no"},
    IntervalStrategyRow{IntervalStrategy::kSteps, "steps"}};
static_assert(is_in_order(kIntervalStrategies));

constexpr const auto& rows_of(IntervalStrategy) {
  return kIntervalStrategies;
}
constexpr const char* noun_of(IntervalStrategy) {
  return "strategy";
}

// Steps from one time to the next: so many, or where `ratio` is above 0 this share of all, rounded
// up, as in transformers.
inline int64_t interval_steps(int64_t steps, double ratio, int64_t all_steps) {
  if (ratio <= 0) return steps;
  return std::max<int64_t>(1,
                           static_cast<int64_t>(std::ceil(static_cast<double>(all_steps) * ratio)));
}

}  // namespace sftbench
