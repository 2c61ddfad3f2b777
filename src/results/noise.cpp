#include "results/noise.h"

#include <algorithm>
#include <cmath>

#include "sftbench/base/error.h"
#include "sftbench/results/repeats.h"

namespace sftbench {
namespace {

// An estimate, its variance, and the degrees of freedom that the variance was estimated with.
struct Estimate {
  double value = 0;
  double variance = 0;
  double degrees = 1;
};

bool all_positive(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return value > 0 && std::isfinite(value); });
}

double mean_log(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return sum / static_cast<double>(values.size());
}

// Of the logarithms, of the sample. REQUIRES: two values.
double variance_log(const std::vector<double>& values) {
  const double center = mean_log(values);
  double squares = 0;
  for (const double value : values)
    squares += (std::log(value) - center) * (std::log(value) - center);
  return squares / static_cast<double>(values.size() - 1);
}

// The variance of the median of that many normal values, over that of their mean. Exact to 0.2 %
// where the number is odd, at most 18 % too large where it is even.
double median_excess(double count) {
  constexpr double kHalfPi = 1.5707963267948966;
  return count < 3 ? 1 : kHalfPi * (1 - 0.434 / count);
}

// `like`: the side whose repeats say how far single runs lie apart; itself where it has repeats.
Estimate from_repeats(const Sampled& side, const Sampled& like) {
  const auto count = static_cast<double>(side.values.size());
  return {std::log(median(side.values)), variance_log(like.values) * median_excess(count) / count,
          static_cast<double>(like.values.size() - 1)};
}

// A rate is steps over time, so its logarithm varies like that of the mean step time.
Estimate from_steps(const Sampled& side) {
  const double count = static_cast<double>(side.steps.count);
  const double r = std::clamp(side.steps.autocorrelation, 0.0, 0.99);
  const double independent = std::max(2.0, count * (1 - r) / (1 + r));
  const double relative = side.steps.deviation_s / side.steps.mean_s;
  return {std::log(side.values.front()), relative * relative / independent, independent - 1};
}

RatioInterval interval(const Estimate& a, const Estimate& b, double degrees, double confidence,
                       NoiseSource source) {
  const double half =
      student_t(confidence, std::max(1.0, degrees)) * std::sqrt(a.variance + b.variance);
  const double difference = a.value - b.value;
  return {std::exp(difference), std::exp(difference - half), std::exp(difference + half), source};
}

double welch_degrees(const Estimate& a, const Estimate& b) {
  const double sum = a.variance + b.variance;
  const double parts = a.variance * a.variance / a.degrees + b.variance * b.variance / b.degrees;
  return parts > 0 ? sum * sum / parts : a.degrees + b.degrees;
}

}  // namespace

std::string_view to_string(NoiseSource source) {
  switch (source) {
    case NoiseSource::kRepeats:
      return "repeats";
    case NoiseSource::kOtherRepeats:
      return "other repeats";
    case NoiseSource::kSteps:
      return "steps";
  }
  return "steps";
}

void RunSpreads::add(const std::vector<double>& repeats) {
  if (repeats.size() < 2 || !all_positive(repeats)) return;
  const auto degrees = static_cast<double>(repeats.size() - 1);
  squares_ += variance_log(repeats) * degrees;
  degrees_ += degrees;
}

std::optional<RunSpread> RunSpreads::pooled() const {
  if (degrees_ == 0) return std::nullopt;
  return RunSpread{squares_ / degrees_, degrees_};
}

std::optional<RatioInterval> ratio_interval(const Sampled& a, const Sampled& b, double confidence,
                                            const std::optional<RunSpread>& others) {
  check(!a.values.empty() && !b.values.empty(), "at least one value on each side");
  if (!all_positive(a.values) || !all_positive(b.values)) return std::nullopt;
  const bool a_repeats = a.values.size() > 1;
  const bool b_repeats = b.values.size() > 1;
  if (a_repeats || b_repeats) {
    const Estimate of_a = from_repeats(a, a_repeats ? a : b);
    const Estimate of_b = from_repeats(b, b_repeats ? b : a);
    const double degrees = a_repeats && b_repeats ? welch_degrees(of_a, of_b) : of_a.degrees;
    return interval(of_a, of_b, degrees, confidence, NoiseSource::kRepeats);
  }
  const bool have_steps = a.steps.count >= 3 && b.steps.count >= 3;
  if (!have_steps && !others) return std::nullopt;
  const Estimate of_a = have_steps ? from_steps(a) : Estimate{std::log(a.values.front())};
  const Estimate of_b = have_steps ? from_steps(b) : Estimate{std::log(b.values.front())};
  if (others && 2 * others->variance >= of_a.variance + of_b.variance) {
    return interval({of_a.value, others->variance}, {of_b.value, others->variance}, others->degrees,
                    confidence, NoiseSource::kOtherRepeats);
  }
  return interval(of_a, of_b, welch_degrees(of_a, of_b), confidence, NoiseSource::kSteps);
}

// With T = sqrt(degrees) tan(angle), P(-t < T < t) is the integral of a power of the cosine, which
// only falls: Newton's method from angle 0 comes to the root from the left and never passes it, and
// each of its steps has but its own stretch to integrate.
double student_t(double confidence, double degrees) {
  check(confidence > 0 && confidence < 1 && degrees >= 1, "a confidence, and degrees >= 1");
  degrees = std::min(degrees, 1e4);
  constexpr double kPi = 3.14159265358979323846;
  const double scale =
      2 * std::exp(std::lgamma((degrees + 1) / 2) - std::lgamma(degrees / 2)) / std::sqrt(kPi);
  const auto density = [&](double angle) { return scale * std::pow(std::cos(angle), degrees - 1); };
  double angle = 0;
  double area = 0;
  for (int i = 0; i < 100; ++i) {
    const double step = (confidence - area) / density(angle);
    if (step < 1e-12) break;
    constexpr int kStretches = 64;  // Simpson's rule
    const double h = step / kStretches;
    double sum = density(angle) + density(angle + step);
    for (int k = 1; k < kStretches; ++k) sum += density(angle + k * h) * (k % 2 == 1 ? 4 : 2);
    area += sum * h / 3;
    angle += step;
  }
  return std::sqrt(degrees) * std::tan(angle);
}

}  // namespace sftbench
