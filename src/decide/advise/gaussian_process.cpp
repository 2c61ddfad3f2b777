#include "advise/gaussian_process.h"

#include <algorithm>
#include <cmath>

namespace sftbench {

GaussianProcess::GaussianProcess(const Points& points, std::vector<double> values,
                                 const std::vector<size_t>& dimension_of_feature,
                                 ProcessShape shape)
    : points_(points),
      of_feature_(dimension_of_feature),
      shape_(std::move(shape)),
      whitened_(std::move(values)) {
  const size_t n = points.size();
  lower_.assign(n * n, 0);
  double log_determinant = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = kernel(points[i], points[j]) + (i == j ? shape_.noise : 0);
      for (size_t k = 0; k < j; ++k) sum -= lower_[i * n + k] * lower_[j * n + k];
      lower_[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-10)) : sum / lower_[j * n + j];
    }
    log_determinant += std::log(lower_[i * n + i]);
  }
  solve_lower(whitened_);
  double squares = 0;
  for (const double value : whitened_) squares += value * value;
  const auto count = static_cast<double>(std::max<size_t>(1, n));
  variance_ = std::max(squares / count, 1e-12);
  log_likelihood_ = -0.5 * count * std::log(variance_) - log_determinant;
}

double GaussianProcess::kernel(const std::vector<double>& a, const std::vector<double>& b) const {
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = (a[i] - b[i]) / shape_.lengths[of_feature_[i]];
    distance += off * off;
  }
  const double r = std::sqrt(5 * distance);
  return (1 + r + r * r / 3) * std::exp(-r);
}

void GaussianProcess::solve_lower(std::vector<double>& right) const {
  const size_t n = right.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= lower_[i * n + k] * right[k];
    right[i] /= lower_[i * n + i];
  }
}

GaussianProcess::Guess GaussianProcess::at(const std::vector<double>& point) const {
  std::vector<double> shared;
  shared.reserve(points_.size());
  for (const std::vector<double>& other : points_) shared.push_back(kernel(point, other));
  solve_lower(shared);
  Guess guess;
  double known = 0;
  for (size_t i = 0; i < shared.size(); ++i) {
    guess.mean += shared[i] * whitened_[i];
    known += shared[i] * shared[i];
  }
  guess.deviation = std::sqrt(variance_ * std::max(0.0, 1 - known));
  return guess;
}

}  // namespace sftbench
