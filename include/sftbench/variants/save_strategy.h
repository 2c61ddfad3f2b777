// When a run saves a checkpoint: transformers' save_strategy.
#pragma once

#include <array>

#include "sftbench/base/named.h"

namespace sftbench {

enum class SaveStrategy {
  kEpoch,  // after each epoch, and at the end
  kNo,
  kSteps,  // every so many optimization steps, and at the end
};

struct SaveStrategyRow {
  SaveStrategy kind;
  const char* name;
};

inline constexpr std::array kSaveStrategies = {SaveStrategyRow{SaveStrategy::kEpoch, "epoch"},
                                               SaveStrategyRow{SaveStrategy::kNo, "no"},
                                               SaveStrategyRow{SaveStrategy::kSteps, "steps"}};
static_assert(is_in_order(kSaveStrategies));

constexpr const auto& rows_of(SaveStrategy) {
  return kSaveStrategies;
}
constexpr const char* noun_of(SaveStrategy) {
  return "save_strategy";
}

}  // namespace sftbench
