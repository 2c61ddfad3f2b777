#include "advise/most_telling.h"

#include <algorithm>
#include <cmath>

namespace sftbench {
namespace {

// The least by value: what costs far more is never chosen after one measurement.
constexpr size_t kMostOptions = 120;
constexpr double kLeastShare = 1e-3;  // of the value

// A standard normal distribution, in steps.
constexpr int kSteps = 81;
constexpr double kWidest = 4;

struct Outcome {
  double deviations = 0;
  double probability = 0;
};

std::vector<Outcome> outcomes() {
  std::vector<Outcome> all;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double z = kWidest * (2.0 * i / (kSteps - 1) - 1);
    all.push_back({z, std::exp(-0.5 * z * z)});
    sum += all.back().probability;
  }
  for (Outcome& outcome : all) outcome.probability /= sum;
  return all;
}

class Telling {
 public:
  Telling(std::vector<Option> options, const std::function<double(const Option&)>& value,
          const Uncertainty& uncertainty)
      : options_(std::move(options)), outcomes_(outcomes()) {
    std::vector<PredictedCase> cases;
    for (const Option& option : options_) {
      values_.push_back(value(option));
      cases.push_back(option.at);
    }
    belief_ = uncertainty.joint(Figure::kTime, cases);
  }

  // REQUIRES: option 0 is the one that is chosen.
  NextMeasurement measuring(size_t measured) const {
    const size_t n = options_.size();
    const double* shared = belief_.covariances.data() + measured * n;
    const double deviation = std::sqrt(shared[measured] + belief_.noise[measured]);
    NextMeasurement next{options_[measured]};
    if (!(deviation > 0)) return next;
    // An option is chosen by its median, and what it costs on average is the mean.
    const auto log_median = [&](size_t i, const Outcome& outcome) {
      return shared[i] / deviation * outcome.deviations;
    };
    const auto mean = [&](size_t i, const Outcome& outcome) {
      const double told = shared[i] / deviation;
      const double left = std::max(0.0, belief_.covariances[i * n + i] - told * told);
      return values_[i] * std::exp(log_median(i, outcome) + left / 2);
    };
    for (const Outcome& outcome : outcomes_) {
      size_t choice = 0;
      double least = values_[0] * std::exp(log_median(0, outcome));
      for (size_t i = 1; i < n; ++i) {
        const double median = values_[i] * std::exp(log_median(i, outcome));
        if (median >= least) continue;
        least = median;
        choice = i;
      }
      if (choice == 0) continue;
      next.saving += outcome.probability * (mean(0, outcome) - mean(choice, outcome));
      next.chance += outcome.probability;
    }
    return next;
  }

  size_t size() const { return options_.size(); }

 private:
  std::vector<Option> options_;
  std::vector<Outcome> outcomes_;
  std::vector<double> values_;
  JointBelief belief_;
};

}  // namespace

std::optional<NextMeasurement> most_telling(const Option& chosen, const std::vector<Option>& left,
                                            const std::vector<Option>& doubtful,
                                            const std::function<double(const Option&)>& value,
                                            const Uncertainty& uncertainty) {
  std::vector<Option> nearest = left;
  std::stable_sort(nearest.begin(), nearest.end(),
                   [&](const Option& a, const Option& b) { return value(a) < value(b); });
  const auto place = std::find_if(nearest.begin(), nearest.end(), [&](const Option& option) {
    return option.inputs == chosen.inputs;
  });
  std::rotate(nearest.begin(), place, place + 1);
  if (nearest.size() > kMostOptions) nearest.resize(kMostOptions);

  std::optional<NextMeasurement> best;
  const double value_now = value(chosen);
  const auto offer = [&](NextMeasurement next) {
    if (next.saving < kLeastShare * value_now) return;
    if (!best || next.saving > best->saving) best = std::move(next);
  };
  const Telling telling(std::move(nearest), value, uncertainty);
  for (size_t i = 0; i < telling.size(); ++i) offer(telling.measuring(i));
  for (const Option& option : doubtful) {
    if (!option.memory_risk || value(option) >= value_now) continue;
    const double fits = 1 - *option.memory_risk;
    offer({option, /*of_memory=*/true, fits, fits * (value_now - value(option))});
  }
  return best;
}

}  // namespace sftbench
