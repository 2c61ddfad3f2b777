// What a run does every so often, saving a checkpoint or evaluating: transformers' IntervalStrategy.
#pragma once

#include <array>

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

}  // namespace sftbench
