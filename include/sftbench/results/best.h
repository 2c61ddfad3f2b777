// The best configuration of what a folder holds, and whether it is better than the next one by more
// than noise.
//
// Best is the lowest cost of a dataset token, start-up left out: the price of the devices over
// their rate. Where devices have no price, the highest rate per device. Models, experiments and
// sequence lengths are answered for separately: they do not do the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/results/repeats.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

// One side of a contest, with the median of its repeats.
struct Contender {
  Repeats repeats;
  double rate = 0;             // dataset tokens per second and device
  std::optional<double> cost;  // of a million of them
  std::string configuration;   // the inputs in which the contest's configurations differ
};

struct Contest {
  std::string title;  // "smollm2-135m, finetune_full_benchmark-v1.0.0, 128 tokens"
  Contender best;
  std::optional<Contender> runner_up;
  // How many times better the best is, with the 95 % interval where the noise is known.
  double ratio = 1;
  std::optional<double> low, high;
  size_t configurations = 0;  // that ran, and had a price or had none as the best

  bool separable() const { return low && *low > 1; }
};

// In the order of their titles. The texts of the scan outlive them. `takes` leaves results out.
std::vector<Contest> best_configurations(
    const StoreScan& scan, const DevicePrices& prices,
    const std::function<bool(const StoredResult&)>& takes = [](const StoredResult&) {
      return true;
    });

}  // namespace sftbench
