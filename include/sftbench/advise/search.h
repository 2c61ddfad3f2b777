// Searches a space for the best value of a figure, one measurement after the other. Everything that
// chance decides follows from the seed, on every machine.
//
//   random           Every order of the candidates is equally likely.
//   Latin hypercube  Each dimension has as many strata as there are samples. Each stratum is met
//                    once (McKay 1979).
//   Bayesian         A Gaussian process with the Matern 5/2 kernel has a length of its own for each
//                    dimension. The next candidate has the largest expected improvement (Jones
//                    1998) times the probability that it is valid. A second process over the
//                    outcomes tells that probability (Gelbart 2014).
//
// A candidate is asked for once. Candidates that `allowed` refuses are never asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "sftbench/space/operation.h"
#include "sftbench/space/space.h"

namespace sftbench {

// Candidates as points: numbers between 0 and 1, some of which are the parts of one dimension.
class SearchSpace {
 public:
  virtual ~SearchSpace() = default;
  virtual int64_t size() const = 0;
  virtual size_t dimensions() const = 0;
  // For each feature: the dimension that it is part of.
  virtual const std::vector<size_t>& dimension_of_feature() const = 0;
  virtual std::vector<double> features(int64_t candidate) const = 0;
  // The candidate at this place: for each dimension a number from 0 to below 1.
  virtual int64_t at(const std::vector<double>& place) const = 0;
};

// Numbers by size, in logarithms where they span a factor of 8, and everything else as categories
// that are equally far from each other.
class GridSearchSpace : public SearchSpace {
 public:
  explicit GridSearchSpace(const Space& space);

  int64_t size() const override { return size_; }
  size_t dimensions() const override { return columns_.size(); }
  const std::vector<size_t>& dimension_of_feature() const override { return of_feature_; }
  std::vector<double> features(int64_t candidate) const override;
  int64_t at(const std::vector<double>& place) const override;

 private:
  std::vector<std::vector<std::vector<double>>> columns_;  // dimension, value, features
  std::vector<size_t> of_feature_;
  int64_t size_ = 1;
};

class SpaceSearch {
 public:
  // `space` outlives the search.
  SpaceSearch(
      const SearchSpace& space, const SearchPlan& plan, uint64_t seed,
      std::function<bool(int64_t)> allowed = [](int64_t) { return true; });

  // Nothing: all samples were asked for, a stop rule holds, or no candidate is left.
  std::optional<int64_t> next();

  // Nothing: it was not valid, or has no such figure.
  void tell(int64_t candidate, std::optional<double> value);

  int64_t asked() const { return static_cast<int64_t>(asked_.size()); }
  int64_t left_at_most() const;

 private:
  struct Told {
    int64_t candidate = 0;
    std::optional<double> value;  // of the figure; nothing: it was not valid
  };

  std::optional<int64_t> choose();
  std::optional<int64_t> random_candidate();
  std::optional<int64_t> stratified();
  std::optional<int64_t> by_process();
  void begin_strata();
  std::vector<int64_t> candidates();
  bool is_free(int64_t candidate) const;
  double uniform();  // from 0 to below 1
  int64_t below(int64_t count);
  bool better(double a, double b) const { return plan_.maximize ? a > b : a < b; }
  void look_at_stops(const std::optional<double>& value);
  std::vector<double> merits_of(const std::vector<double>& values) const;

  const SearchSpace& space_;
  SearchPlan plan_;
  std::function<bool(int64_t)> allowed_;
  std::mt19937_64 random_;
  std::set<int64_t> asked_;
  std::vector<Told> told_;
  std::vector<std::vector<double>> strata_;  // places that are still to be met
  size_t given_ = 0;                         // of the plan's points
  std::vector<double> lengths_;              // of each dimension, as they were fitted last
  size_t fitted_at_ = 0;                     // valid values then
  std::optional<double> best_;
  int64_t without_gain_ = 0;
  bool stopped_ = false;
};

}  // namespace sftbench
