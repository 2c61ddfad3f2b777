#include "sftbench/advise/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

constexpr size_t kMostRows = 256;
constexpr double kOtherMethod = 0.5;  // what rows of another method or checkpointing tell

// Of steps on processors after a probe. No published table is of processors: fitted by
// bench/predict/processor_spread.py to 60 configurations that were measured twice, one measurement
// 5 % from the other in the median (bench/results/predictions.md). The widening is a normal
// distribution's own. Where a probe found more noise than there, that counts.
constexpr Spread kProcessorTime = {.offset = 2e-3,
                                   .model = 2.5e-6,
                                   .near = 4e-3,
                                   .distance = 1.25,
                                   .noise = 1e-2,
                                   .widening = 1.64};

// Of tensors on processors, of the same runs, 4 of 60 of which were more than 1.5 % from the
// prediction. Two models tell little of others, so a model's own part is larger than theirs.
constexpr Spread kProcessorMemory = {
    .offset = 1e-6, .model = 2e-4, .near = 6e-5, .distance = 1.25, .noise = 1e-5, .widening = 1.64};
constexpr int64_t kProcessorRows = 60;
constexpr const char* kOfProcessors = "of two models on another machine's processors";

// Memory of this program on processors was compared, and time of it behind a probe.
bool is_compared_on_processors(Figure figure, const PredictedCase& at) {
  return at.machine == "CPU" && at.stack == "sftbench" &&
         (figure == Figure::kMemory || at.run_variance);
}

Spread processor_spread(Figure figure, const PredictedCase& at) {
  if (figure == Figure::kMemory) return kProcessorMemory;
  Spread spread = kProcessorTime;
  spread.noise = std::max(spread.noise, at.run_variance.value_or(0));
  return spread;
}

Interval interval_of(const ResidualProcess& process, const PredictedCase& at, int64_t rows,
                     std::string basis) {
  const ResidualProcess::Guess guess = process.at(at);
  const double half = process.spread().widening * guess.deviation;
  return {std::exp(guess.mean - half),
          std::exp(guess.mean),
          std::exp(guess.mean + half),
          rows,
          false,
          false,
          true,
          std::move(basis)};
}

// As a normal distribution whose nine tenths are the interval.
double chance_beyond(double factor, const ResidualProcess::Guess& guess, double widening) {
  if (factor <= 0) return 1;
  const double deviation = guess.deviation * widening / kNormalP95;
  return 0.5 * std::erfc((std::log(factor) - guess.mean) / (deviation * std::numbers::sqrt2));
}

double square(double x) {
  return x * x;
}

double doublings(int64_t size) {
  return std::log2(static_cast<double>(std::max<int64_t>(1, size)));
}

std::string count_of(size_t measurements) {
  return counted(static_cast<int64_t>(measurements), "own measurement") + " on this machine";
}

}  // namespace

CasePlace::CasePlace(const PredictedCase& at)
    : length(doublings(at.length)),
      batch(doublings(at.batch)),
      ranks(doublings(at.ranks)),
      model(std::hash<std::string>()(at.model)),
      method(std::hash<std::string>()(at.method)),
      checkpointing(at.checkpointing) {}

double covariance(const CasePlace& a, const CasePlace& b, const Spread& spread) {
  if (a.model != b.model) return spread.offset;
  double near = spread.near;
  near *= std::exp(
      -(square(a.length - b.length) + square(a.batch - b.batch) + square(a.ranks - b.ranks)) /
      (2 * square(spread.distance)));
  if (a.method != b.method) near *= kOtherMethod;
  if (a.checkpointing != b.checkpointing) near *= kOtherMethod;
  return spread.offset + spread.model + near;
}

double variance_of_one(const Spread& spread) {
  return spread.offset + spread.model + spread.near;
}

Spread spread_for(const ResidualTable& table, Figure figure, const PredictedCase& at) {
  if (is_compared_on_processors(figure, at)) return processor_spread(figure, at);
  const bool of_processors = figure == Figure::kTime && at.machine == "CPU";
  Spread spread = of_processors ? processor_spread(figure, at) : table.spread(figure);
  const Interval shipped = table.interval(figure, at);
  if (shipped.assumed || shipped.far)
    spread.offset = std::max(spread.offset, square(std::log(shipped.high) / kNormalP95));
  return spread;
}

ResidualProcess::ResidualProcess(std::vector<Residual> rows, const Spread& spread)
    : rows_(std::move(rows)), spread_(spread) {
  if (rows_.size() > kMostRows) rows_.erase(rows_.begin(), rows_.end() - kMostRows);
  const size_t n = rows_.size();
  for (const Residual& row : rows_) places_.emplace_back(row.at);
  lower_.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = covariance(places_[i], places_[j], spread_) + (i == j ? spread_.noise : 0);
      for (size_t k = 0; k < j; ++k) sum -= lower_[i * n + k] * lower_[j * n + k];
      lower_[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / lower_[j * n + j];
    }
  }
  std::vector<double> values;
  for (const Residual& row : rows_) values.push_back(row.log_ratio);
  whitened_ = solve_lower(std::move(values));
}

std::vector<double> ResidualProcess::solve_lower(std::vector<double> right) const {
  const size_t n = rows_.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= lower_[i * n + k] * right[k];
    right[i] /= lower_[i * n + i];
  }
  return right;
}

ResidualProcess::Guess ResidualProcess::at(const PredictedCase& at) const {
  const CasePlace place(at);
  std::vector<double> shared;
  for (const CasePlace& other : places_) shared.push_back(covariance(other, place, spread_));
  const std::vector<double> whitened = solve_lower(std::move(shared));
  Guess guess;
  double known = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    guess.mean += whitened[i] * whitened_[i];
    known += square(whitened[i]);
  }
  const double variance = variance_of_one(spread_) + spread_.noise - known;
  guess.deviation = std::sqrt(std::max(variance, spread_.noise));
  return guess;
}

double ResidualProcess::log_likelihood() const {
  const size_t n = rows_.size();
  double sum = -0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
  for (size_t i = 0; i < n; ++i) sum -= 0.5 * square(whitened_[i]) + std::log(lower_[i * n + i]);
  return sum;
}

Uncertainty::Uncertainty(const ResidualTable& table, std::vector<Residual> own) : table_(table) {
  std::map<Key, std::vector<Residual>> groups;
  for (Residual& row : own) {
    groups[{row.figure, {row.at.machine, row.at.stack}}].push_back(std::move(row));
  }
  for (auto& [key, rows] : groups) {
    const Spread spread = spread_for(table_, key.first, rows.front().at);
    processes_.emplace(key, ResidualProcess(std::move(rows), spread));
  }
}

const ResidualProcess* Uncertainty::process(Figure figure, const PredictedCase& at) const {
  const auto found = processes_.find({figure, {at.machine, at.stack}});
  return found == processes_.end() ? nullptr : &found->second;
}

Interval Uncertainty::interval(Figure figure, const PredictedCase& at) const {
  const ResidualProcess* own = process(figure, at);
  if (own != nullptr)
    return interval_of(*own, at, static_cast<int64_t>(own->size()), count_of(own->size()));
  if (!is_compared_on_processors(figure, at)) return table_.interval(figure, at);
  Interval interval = interval_of(ResidualProcess({}, processor_spread(figure, at)), at,
                                  kProcessorRows, kOfProcessors);
  interval.own = false;
  return interval;
}

double Uncertainty::chance_above(Figure figure, const PredictedCase& at, double factor) const {
  if (const ResidualProcess* own = process(figure, at))
    return chance_beyond(factor, own->at(at), own->spread().widening);
  if (!is_compared_on_processors(figure, at)) return table_.chance_above(figure, at, factor);
  const Spread spread = processor_spread(figure, at);
  return chance_beyond(factor, ResidualProcess({}, spread).at(at), spread.widening);
}

}  // namespace sftbench
