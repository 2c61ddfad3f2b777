// What is known of ln(measured / predicted) of a fixed set of cases, while one after the other is
// measured: the process of ResidualProcess, kept up for all cases at once, where that one answers for
// a case at a time. Of n cases, w are watched. The kth measurement costs n (k + w) operations. To ask
// all cases again would cost n k^2.
#pragma once

#include <cstddef>
#include <vector>

#include "sftbench/advise/uncertainty.h"

namespace sftbench {

class CaseBeliefs {
 public:
  // Of one machine and stack.
  CaseBeliefs(std::vector<CasePlace> cases, const Spread& spread);

  // Cases whose uncertainty gain() counts, instead of those before.
  void watch(std::vector<size_t> cases);
  const std::vector<size_t>& watched() const { return watched_; }

  // Case i is measured, with noise of this variance. What is known of others no longer depends on
  // what comes out, but their means do: learn() tells it, before the next condition(), or never.
  void condition(size_t i, double noise);
  void learn(double log_ratio);
  void undo();  // the last condition(), and its learn()
  size_t conditions() const { return steps_.size(); }

  double mean(size_t i) const { return means_[i]; }
  double variance(size_t i) const { return variances_[i]; }  // without the noise of a measurement

  // Of the watched cases but i, each with its weight, and of case i: the variance that a measurement
  // of case i takes off. REQUIRES: as many weights as watched cases.
  double gain(size_t i, const std::vector<float>& weights, double own_weight, double noise) const;

 private:
  struct Step {
    size_t measured = 0;
    double deviation = 0;  // of what was measured, before it was
    double surprise = 0;   // in deviations
    std::vector<float> of_cases;
  };

  // Of all cases with case i, given all that was measured.
  std::vector<float> shared_with(size_t i) const;
  void move_all(const Step& step, double direction);

  std::vector<CasePlace> cases_;
  Spread spread_;
  std::vector<double> means_, variances_;
  std::vector<size_t> watched_;
  std::vector<size_t> place_watched_;  // of each case; the length of a row: it is not
  std::vector<float> with_watched_;    // covariances: a row for each case, padded
  std::vector<Step> steps_;
};

}  // namespace sftbench
