// Own measurements sharpen predictions: a Gaussian process over ln(measured / predicted), whose
// variances are those of the shipped residuals (Spread). Measurements on the same machine and with
// the same stack count, more the more a configuration is like theirs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sftbench/advise/residuals.h"

namespace sftbench {

// A case as the process sees it: where it lies, and what it has in common with others.
struct CasePlace {
  explicit CasePlace(const PredictedCase& at);

  double length = 0, batch = 0, ranks = 0;  // in doublings
  size_t model = 0, method = 0;             // hashes of their names
  bool checkpointing = true;
};

// Of ln(measured / predicted) of two cases on one machine, without the noise of a row.
double covariance(const CasePlace& a, const CasePlace& b, const Spread& spread);
// Of one case.
double variance_of_one(const Spread& spread);

// The table's spread. Time on processors has a spread of its own. Where nothing was compared
// before, all rows may be off together by as much as assumed ones are.
Spread spread_for(const ResidualTable& table, Figure figure, const PredictedCase& at);

// Of a normal distribution, deviations that hold nine of ten.
inline constexpr double kNormalP95 = 1.6448536269514722;

// Rasmussen and Williams 2006, algorithm 2.1, with mean 0.
class ResidualProcess {
 public:
  // `rows` are of one machine and stack, and not too many: it takes n^3 / 3 operations.
  ResidualProcess(std::vector<Residual> rows, const Spread& spread);

  struct Guess {
    double mean = 0;
    double deviation = 0;  // of one further measurement
  };
  Guess at(const PredictedCase& at) const;
  double log_likelihood() const;  // of the rows
  size_t size() const { return rows_.size(); }
  const Spread& spread() const { return spread_; }

 private:
  std::vector<double> solve_lower(std::vector<double> right) const;

  std::vector<Residual> rows_;
  std::vector<CasePlace> places_;  // of the rows
  Spread spread_;
  std::vector<double> lower_;  // Cholesky factor, row by row
  std::vector<double> whitened_;
};

class Uncertainty {
 public:
  explicit Uncertainty(const ResidualTable& table, std::vector<Residual> own = {});

  Interval interval(Figure figure, const PredictedCase& at) const;
  double chance_above(Figure figure, const PredictedCase& at, double factor) const;
  bool has_own() const { return !processes_.empty(); }

 private:
  using Key = std::pair<Figure, std::pair<std::string, std::string>>;
  const ResidualProcess* process(Figure figure, const PredictedCase& at) const;

  const ResidualTable& table_;
  std::map<Key, ResidualProcess> processes_;
};

}  // namespace sftbench
