// Which entries are trained on and which are evaluated, and in which order several sets are mixed:
// as the package datasets does it, entry by entry.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sftbench/base/named.h"

namespace sftbench {

// When mixing ends: once the first set has given all its entries; once every set has, while the
// others begin anew; or so, but no entry comes twice.
enum class StoppingStrategy { kAllExhausted, kAllExhaustedWithoutReplacement, kFirstExhausted };

struct StoppingStrategyRow {
  StoppingStrategy kind;
  const char* name;
};
inline constexpr std::array kStoppingStrategies = {
    StoppingStrategyRow{StoppingStrategy::kAllExhausted, "all_exhausted"},
    StoppingStrategyRow{StoppingStrategy::kAllExhaustedWithoutReplacement,
                        "all_exhausted_without_replacement"},
    StoppingStrategyRow{StoppingStrategy::kFirstExhausted, "first_exhausted"}};
static_assert(is_in_order(kStoppingStrategies));
constexpr const auto& rows_of(StoppingStrategy) {
  return kStoppingStrategies;
}
constexpr const char* noun_of(StoppingStrategy) {
  return "sampling_stopping_strategy";
}

struct EntrySplit {
  std::vector<int64_t> training;
  std::vector<int64_t> evaluation;
};

// train_test_split(test_size=share, seed=seed). The share is rounded up; 0: all are trained on, as
// they stand; from 1 on it is a number of entries. `trained`, where it is not below 0: train_size,
// so that entries may be left out.
EntrySplit split_entries(int64_t entries, double share, uint64_t seed, double trained = -1);

// interleave_datasets(probabilities=shares, seed=seed, stopping_strategy=stopping): positions in
// the sets of these lengths, one behind the other. Each position comes from a set that is drawn,
// and is the next one of it. REQUIRES: lengths and shares > 0, the shares add up to 1.
std::vector<int64_t> interleave(const std::vector<int64_t>& lengths,
                                const std::vector<double>& shares, StoppingStrategy stopping,
                                uint64_t seed);

}  // namespace sftbench
