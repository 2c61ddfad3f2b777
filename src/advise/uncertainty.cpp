#include "sftbench/advise/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr size_t kMostRows = 256;
constexpr double kOtherMethod = 0.5;  // what rows of another method or checkpointing tell

// Of steps on processors after a probe. No published table is of processors: fitted by
// bench/predict/processor_spread.py to 60 configurations that were measured twice, one measurement
// 5 % from the other in the median (bench/RESULTS.md, 2026-11-26). The widening is a normal
// distribution's own.
constexpr Spread kProcessorTime = {.offset = 2e-3,
                                   .model = 2.5e-6,
                                   .near = 4e-3,
                                   .distance = 1.25,
                                   .noise = 1e-2,
                                   .widening = 1.64};

double square(double x) {
  return x * x;
}

double doublings(int64_t size) {
  return std::log2(static_cast<double>(std::max<int64_t>(1, size)));
}

std::string count_of(size_t measurements) {
  return std::to_string(measurements) + (measurements == 1 ? " own measurement on this machine"
                                                           : " own measurements on this machine");
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
  Spread spread =
      figure == Figure::kTime && at.machine == "CPU" ? kProcessorTime : table.spread(figure);
  const Interval shipped = table.interval(figure, at);
  if (shipped.assumed)
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
  if (own == nullptr) return table_.interval(figure, at);
  const ResidualProcess::Guess guess = own->at(at);
  const double half = own->spread().widening * guess.deviation;
  return {std::exp(guess.mean - half),
          std::exp(guess.mean),
          std::exp(guess.mean + half),
          static_cast<int64_t>(own->size()),
          false,
          true,
          count_of(own->size())};
}

double Uncertainty::chance_above(Figure figure, const PredictedCase& at, double factor) const {
  const ResidualProcess* own = process(figure, at);
  if (own == nullptr) return table_.chance_above(figure, at, factor);
  if (factor <= 0) return 1;
  const ResidualProcess::Guess guess = own->at(at);
  // A normal distribution whose nine tenths are the interval.
  const double deviation = guess.deviation * own->spread().widening / kNormalP95;
  return 0.5 * std::erfc((std::log(factor) - guess.mean) / (deviation * std::numbers::sqrt2));
}

}  // namespace sftbench
