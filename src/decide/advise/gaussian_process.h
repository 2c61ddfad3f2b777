// A Gaussian process with the Matern 5/2 kernel over points of [0, 1]^d (Rasmussen and Williams
// 2006, algorithm 2.1). The signal's variance is that under which the values are likeliest.
#pragma once

#include <cstddef>
#include <vector>

namespace sftbench {

struct ProcessShape {
  std::vector<double> lengths;  // of each dimension; large: it does not matter
  double noise = 1e-3;          // variance, of the signal's
};

class GaussianProcess {
 public:
  using Points = std::vector<std::vector<double>>;

  // `values` have mean 0. `dimension_of_feature`: as SearchSpace says.
  GaussianProcess(const Points& points, std::vector<double> values,
                  const std::vector<size_t>& dimension_of_feature, ProcessShape shape);

  struct Guess {
    double mean = 0;
    double deviation = 0;  // of the function, without noise
  };
  Guess at(const std::vector<double>& point) const;

  // Of the values, the signal's variance chosen so that it is largest.
  double log_likelihood() const { return log_likelihood_; }

 private:
  double kernel(const std::vector<double>& a, const std::vector<double>& b) const;
  void solve_lower(std::vector<double>& right) const;

  const Points& points_;
  const std::vector<size_t>& of_feature_;
  ProcessShape shape_;
  std::vector<double> lower_;  // Cholesky factor, row by row
  std::vector<double> whitened_;
  double variance_ = 1;
  double log_likelihood_ = 0;
};

}  // namespace sftbench
