// Is a difference between two measurements larger than their noise?
//
// Repeats are summarized by their median everywhere: one disturbed run among three does not move
// it. Rates vary by factors, so everything is done on logarithms: a difference of logarithms is a
// ratio. The noise of a configuration is taken from
//   repeats  whole runs of the same configuration. Both sides repeated: Welch's interval. One side
//            repeated: the other one's single run is taken to vary like these (a prediction
//            interval).
//   other repeats  where neither side was repeated, whole runs of other configurations, if they
//            vary more than the steps below.
//   steps    the steps within the two runs, their number reduced by their correlation with each
//            other, n (1 - r) / (1 + r). What differs from run to run but not within one (the state
//            of the machine, where memory lies) is not seen by it: a difference beyond it may still
//            be chance, so repeats are worth their time.
// Sources: Welch, Biometrika 34 (1947); Bayley and Hammersley, J. R. Stat. Soc. B 8 (1946).
#pragma once

#include <optional>
#include <vector>

#include "sftbench/results/scan.h"

namespace sftbench {

enum class NoiseSource { kRepeats, kOtherRepeats, kSteps };
std::string_view to_string(NoiseSource source);

struct RatioInterval {
  double ratio = 1;  // of the medians
  double low = 1;
  double high = 1;
  NoiseSource source = NoiseSource::kRepeats;
};

// One side of a comparison.
struct Sampled {
  std::vector<double> values;  // one per run; positive
  StepTimes steps;             // of the only run; of no use when there are several
};

// How far whole runs of one configuration lie apart: the variance of the logarithms, pooled over
// configurations.
struct RunSpread {
  double variance = 0;
  double degrees = 0;
};

class RunSpreads {
 public:
  void add(const std::vector<double>& repeats);  // of one configuration
  // Nothing where no configuration had repeats, all of them positive.
  std::optional<RunSpread> pooled() const;

 private:
  double squares_ = 0, degrees_ = 0;
};

// a over b, with the interval that contains the true ratio with this confidence. `others` is the
// spread of other configurations. Nothing when a value is not positive, or when neither side nor
// any other configuration was repeated and a run has fewer than three steps. REQUIRES: at least one
// value on each side.
std::optional<RatioInterval> ratio_interval(const Sampled& a, const Sampled& b,
                                            double confidence = 0.95,
                                            const std::optional<RunSpread>& others = {});

// The t with P(-t < T < t) = confidence, for Student's distribution; relative error below 1e-6.
// REQUIRES: 0 < confidence < 1, degrees >= 1; more than 10,000 degrees count as 10,000.
double student_t(double confidence, double degrees);

}  // namespace sftbench
