#include "sftbench/advise/odds.h"

#include <algorithm>

namespace sftbench {
namespace {

// Over the expected one, of nine in ten sequences of lengths (bench/predict/fragmentation.py).
constexpr double kLeastFragmentation = 0.2, kMostFragmentation = 2.9;

// What a process needs of its device beside tensors is known well.
double beside_tensors(const Prediction& p) {
  return needed_bytes(p.cost, p.job, p.machine) - p.cost.memory.total();
}

}  // namespace

std::optional<Odds> odds_of(const Prediction& prediction, const Uncertainty& uncertainty) {
  const double memory = prediction.machine.memory_bytes;
  if (memory <= 0) return std::nullopt;
  const double total = prediction.cost.memory.total();
  const auto chance_above = [&](double share) {
    const double factor = (share * memory - beside_tensors(prediction)) / total;
    return uncertainty.chance_above(Figure::kMemory, prediction.at, factor);
  };
  Odds odds;
  odds.dies = chance_above(kUsableMemory);
  odds.thrashes = std::max(0.0, chance_above(kThrashingMemory) - odds.dies);
  odds.fits = 1 - odds.dies - odds.thrashes;
  return odds;
}

Range step_range(const Prediction& prediction, const Uncertainty& uncertainty) {
  const Interval factors = uncertainty.interval(Figure::kTime, prediction.at);
  const double step_s = prediction.cost.step_s;
  return {step_s * factors.low, step_s * factors.center, step_s * factors.high};
}

Range memory_range(const Prediction& prediction, const Uncertainty& uncertainty) {
  const Interval factors = uncertainty.interval(Figure::kMemory, prediction.at);
  const double total = prediction.cost.memory.total();
  const double beside = beside_tensors(prediction);
  return {beside + total * factors.low, beside + total * factors.center,
          beside + total * factors.high};
}

Range held_range(const Prediction& prediction, const Uncertainty& uncertainty) {
  const Range memory = memory_range(prediction, uncertainty);
  const double kept = prediction.cost.memory.fragmentation;
  return {memory.low + kLeastFragmentation * kept, memory.expected + kept,
          memory.high + kMostFragmentation * kept};
}

}  // namespace sftbench
