#include "advise/case_beliefs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// Numbers that are worked on side by side: what is long is padded to a multiple.
constexpr size_t kLanes = 8;

size_t padded(size_t count) {
  return (count + kLanes - 1) / kLanes * kLanes;
}

// y -= factor x. REQUIRES: a multiple of kLanes. In blocks of a fixed size, which -O2 makes vectors of.
void subtract(float* __restrict y, const float* __restrict x, float factor, size_t count) {
  for (size_t i = 0; i < count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) y[i + lane] -= factor * x[i + lane];
  }
}

}  // namespace

CaseBeliefs::CaseBeliefs(std::vector<CasePlace> cases, const Spread& spread)
    : cases_(std::move(cases)),
      spread_(spread),
      means_(cases_.size(), 0.0),
      variances_(cases_.size(), variance_of_one(spread)) {}

std::vector<float> CaseBeliefs::shared_with(size_t i) const {
  std::vector<float> sums(padded(cases_.size()));
  for (size_t j = 0; j < cases_.size(); ++j)
    sums[j] = static_cast<float>(covariance(cases_[i], cases_[j], spread_));
  for (const Step& step : steps_)
    subtract(sums.data(), step.of_cases.data(), step.of_cases[i], sums.size());
  return sums;
}

void CaseBeliefs::watch(std::vector<size_t> cases) {
  watched_ = std::move(cases);
  const size_t width = padded(watched_.size());
  place_watched_.assign(cases_.size(), width);
  with_watched_.assign(cases_.size() * width, 0);
  for (size_t w = 0; w < watched_.size(); ++w) {
    place_watched_[watched_[w]] = w;
    const std::vector<float> of_one = shared_with(watched_[w]);
    for (size_t i = 0; i < cases_.size(); ++i) with_watched_[i * width + w] = of_one[i];
  }
}

// Away from what was known before the step, or back.
void CaseBeliefs::move_all(const Step& step, double direction) {
  const size_t width = padded(watched_.size());
  std::vector<float> of_watched(width);
  for (size_t w = 0; w < watched_.size(); ++w)
    of_watched[w] = static_cast<float>(direction) * step.of_cases[watched_[w]];
  for (size_t i = 0; i < cases_.size(); ++i) {
    const float own = step.of_cases[i];
    variances_[i] -= direction * static_cast<double>(own) * static_cast<double>(own);
    subtract(with_watched_.data() + i * width, of_watched.data(), own, width);
  }
}

void CaseBeliefs::condition(size_t i, double noise) {
  Step step;
  step.measured = i;
  step.deviation = std::sqrt(std::max(variances_[i], 0.0) + noise);
  std::vector<float> sums = shared_with(i);
  const auto scale = static_cast<float>(1 / step.deviation);
  for (float& sum : sums) sum *= scale;
  step.of_cases = std::move(sums);
  move_all(step, 1);
  steps_.push_back(std::move(step));
}

void CaseBeliefs::learn(double log_ratio) {
  Step& last = steps_.back();
  check(last.surprise == 0, "a measurement is told once");
  last.surprise = (log_ratio - means_[last.measured]) / last.deviation;
  for (size_t j = 0; j < cases_.size(); ++j)
    means_[j] += last.surprise * static_cast<double>(last.of_cases[j]);
}

void CaseBeliefs::undo() {
  const Step& last = steps_.back();
  move_all(last, -1);
  for (size_t j = 0; j < cases_.size(); ++j)
    means_[j] -= last.surprise * static_cast<double>(last.of_cases[j]);
  steps_.pop_back();
}

double CaseBeliefs::gain(size_t i, const std::vector<float>& weights, double own_weight,
                         double noise) const {
  const size_t width = padded(watched_.size());
  const float* row = with_watched_.data() + i * width;
  // Sums side by side: one alone would wait for each addition.
  float lanes[kLanes] = {};
  size_t w = 0;
  for (; w + kLanes <= watched_.size(); w += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += weights[w + lane] * row[w + lane] * row[w + lane];
  }
  for (; w < watched_.size(); ++w) lanes[0] += weights[w] * row[w] * row[w];
  const double variance = std::max(variances_[i], 0.0);
  double sum = own_weight * variance * variance;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  // What stands for others is no better measured than they are.
  if (!watched_.empty() && place_watched_[i] < width) {
    const size_t own = place_watched_[i];
    sum -= static_cast<double>(weights[own] * row[own] * row[own]);
  }
  return std::max(0.0, sum) / (variance + noise);
}

}  // namespace sftbench
