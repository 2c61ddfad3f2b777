#include "sftbench/advise/search.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "advise/gaussian_process.h"

namespace sftbench {
namespace {

constexpr int64_t kFewCandidates = 4096;  // all of which are looked at
constexpr int kDraws = 2048;              // of more than that
constexpr int kTriesPerDraw = 64;
constexpr size_t kMostPoints = 128;  // of a process: it takes n^3 / 3 operations
constexpr double kLogSpan = 8;
constexpr double kUsualLength = 0.5;
constexpr double kLeastChance = 0.02;  // of being valid: nothing is ever ruled out for good

double normal_density(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}

double normal_share(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double expected_improvement(const GaussianProcess::Guess& guess, double best) {
  if (guess.deviation <= 0) return std::max(0.0, guess.mean - best);
  const double u = (guess.mean - best) / guess.deviation;
  return guess.deviation * (u * normal_share(u) + normal_density(u));
}

std::vector<std::vector<double>> features_of(const Dimension& dimension) {
  std::vector<double> numbers;
  bool numeric = true;
  for (int64_t i = 0; i < dimension.size(); ++i) {
    const Json value = dimension.value(i);
    numeric = numeric && value.is_number();
    if (numeric) numbers.push_back(value.get<double>());
  }
  std::vector<std::vector<double>> features;
  if (!numeric) {
    // Any two of them are at a distance of 1.
    for (int64_t i = 0; i < dimension.size(); ++i) {
      features.emplace_back(static_cast<size_t>(dimension.size()), 0.0);
      features.back()[static_cast<size_t>(i)] = 1 / std::numbers::sqrt2;
    }
    return features;
  }
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const bool by_factors = *low > 0 && *high >= kLogSpan * *low;
  const auto scaled = [by_factors](double x) { return by_factors ? std::log(x) : x; };
  const double begin = scaled(*low), width = scaled(*high) - begin;
  for (const double number : numbers)
    features.push_back({width > 0 ? (scaled(number) - begin) / width : 0.5});
  return features;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Lengths under which the values are likeliest, one dimension after the other.
std::vector<double> fitted_lengths(const GaussianProcess::Points& points,
                                   const std::vector<double>& values,
                                   const std::vector<size_t>& of_feature, size_t dimensions,
                                   double noise) {
  const auto likelihood = [&](const std::vector<double>& lengths) {
    // A weak preference for the usual length keeps dimensions that nothing is known of apart.
    double prior = 0;
    for (const double length : lengths) prior -= 0.1 * std::pow(std::log(length / kUsualLength), 2);
    return GaussianProcess(points, values, of_feature, {lengths, noise}).log_likelihood() + prior;
  };
  std::vector<double> best(dimensions, kUsualLength);
  double most = likelihood(best);
  for (int round = 0; round < 2; ++round) {
    for (size_t d = 0; d < dimensions; ++d) {
      const std::vector<double> before = best;
      for (const double length : {0.125, 0.25, 0.5, 1.0, 2.0, 8.0}) {
        std::vector<double> tried = before;
        tried[d] = length;
        const double found = likelihood(tried);
        if (found <= most) continue;
        most = found;
        best = tried;
      }
    }
  }
  return best;
}

}  // namespace

GridSearchSpace::GridSearchSpace(const Space& space) {
  for (const Dimension& dimension : space.dimensions) {
    columns_.push_back(features_of(dimension));
    size_ *= dimension.size();
    const size_t features = columns_.back().empty() ? 0 : columns_.back().front().size();
    of_feature_.insert(of_feature_.end(), features, columns_.size() - 1);
  }
}

std::vector<double> GridSearchSpace::features(int64_t candidate) const {
  std::vector<size_t> digits(columns_.size());
  for (size_t d = columns_.size(); d-- > 0;) {
    const auto size = static_cast<int64_t>(columns_[d].size());
    digits[d] = static_cast<size_t>(candidate % size);
    candidate /= size;
  }
  std::vector<double> features;
  for (size_t d = 0; d < columns_.size(); ++d) {
    const std::vector<double>& own = columns_[d][digits[d]];
    features.insert(features.end(), own.begin(), own.end());
  }
  return features;
}

int64_t GridSearchSpace::at(const std::vector<double>& place) const {
  int64_t candidate = 0;
  for (size_t d = 0; d < columns_.size(); ++d) {
    const auto size = static_cast<int64_t>(columns_[d].size());
    const auto digit = static_cast<int64_t>(place[d] * static_cast<double>(size));
    candidate = candidate * size + std::clamp<int64_t>(digit, 0, size - 1);
  }
  return candidate;
}

SpaceSearch::SpaceSearch(const SearchSpace& space, const SearchPlan& plan, uint64_t seed,
                         std::function<bool(int64_t)> allowed)
    : space_(space), plan_(plan), allowed_(std::move(allowed)), random_(seed) {
  lengths_.assign(space.dimensions(), kUsualLength);
  if (plan_.samples < 0) plan_.samples = space.size();
  plan_.samples = std::min(plan_.samples, space.size());
}

// Not std::uniform_real_distribution: libraries differ in it.
double SpaceSearch::uniform() {
  return static_cast<double>(random_() >> 11) * 0x1p-53;
}

int64_t SpaceSearch::below(int64_t count) {
  return std::min(static_cast<int64_t>(uniform() * static_cast<double>(count)), count - 1);
}

int64_t SpaceSearch::left_at_most() const {
  return stopped_ ? 0 : std::max<int64_t>(0, plan_.samples - asked());
}

bool SpaceSearch::is_free(int64_t candidate) const {
  return asked_.count(candidate) == 0 && allowed_(candidate);
}

std::optional<int64_t> SpaceSearch::next() {
  if (stopped_ || asked() >= plan_.samples) return std::nullopt;
  const std::optional<int64_t> chosen = choose();
  if (chosen) asked_.insert(*chosen);
  stopped_ = stopped_ || !chosen;
  return chosen;
}

std::optional<int64_t> SpaceSearch::choose() {
  while (given_ < plan_.points.size()) {
    const int64_t point = plan_.points[given_++];
    if (is_free(point)) return point;
  }
  if (plan_.method == SearchMethod::kRandom) return random_candidate();
  if (plan_.method == SearchMethod::kLatinHypercube) return stratified();
  // What is given counts: it is as good a beginning.
  return asked() < plan_.first ? stratified() : by_process();
}

std::optional<int64_t> SpaceSearch::random_candidate() {
  for (int i = 0; i < kTriesPerDraw; ++i) {
    const int64_t candidate = below(space_.size());
    if (is_free(candidate)) return candidate;
  }
  // Few are left: from a place on, the next one that is.
  const int64_t begin = below(space_.size());
  for (int64_t i = 0; i < space_.size(); ++i) {
    const int64_t candidate = (begin + i) % space_.size();
    if (is_free(candidate)) return candidate;
  }
  return std::nullopt;
}

void SpaceSearch::begin_strata() {
  constexpr int64_t kMostStrata = 256;
  const int64_t wanted =
      plan_.method == SearchMethod::kLatinHypercube ? plan_.samples - asked() : plan_.first;
  const auto count = static_cast<size_t>(std::clamp<int64_t>(wanted, 1, kMostStrata));
  strata_.assign(count, std::vector<double>(space_.dimensions()));
  for (size_t d = 0; d < space_.dimensions(); ++d) {
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = count; i > 1; --i)
      std::swap(order[i - 1], order[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    for (size_t i = 0; i < count; ++i)
      strata_[i][d] = (static_cast<double>(order[i]) + uniform()) / static_cast<double>(count);
  }
}

std::optional<int64_t> SpaceSearch::stratified() {
  if (strata_.empty()) begin_strata();
  const std::vector<double> place = strata_.back();
  strata_.pop_back();
  const int64_t candidate = space_.at(place);
  return is_free(candidate) ? std::optional(candidate) : random_candidate();
}

// All of them, or so many at random and the neighbors of the best one.
std::vector<int64_t> SpaceSearch::candidates() {
  std::vector<int64_t> found;
  if (space_.size() <= kFewCandidates) {
    for (int64_t i = 0; i < space_.size(); ++i) {
      if (is_free(i)) found.push_back(i);
    }
    return found;
  }
  for (int i = 0; i < kDraws; ++i) {
    const int64_t candidate = below(space_.size());
    if (is_free(candidate)) found.push_back(candidate);
  }
  const auto worse = [this](const Told& a, const Told& b) {
    return b.value && (!a.value || better(*b.value, *a.value));
  };
  const auto best = std::max_element(told_.begin(), told_.end(), worse);
  if (best == told_.end()) return found;
  // A candidate beside it differs by little of its number, dimension by dimension.
  for (int64_t stride = 1; stride < space_.size(); stride *= 2) {
    for (const int64_t near : {best->candidate - stride, best->candidate + stride}) {
      if (near >= 0 && near < space_.size() && is_free(near)) found.push_back(near);
    }
  }
  return found;
}

// Higher is better, with mean 0; in logarithms where all are positive, since rates and times vary
// by factors.
std::vector<double> SpaceSearch::merits_of(const std::vector<double>& values) const {
  const bool positive =
      std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
  std::vector<double> merits;
  for (const double value : values)
    merits.push_back((plan_.maximize ? 1 : -1) * (positive ? std::log(value) : value));
  const double mean = merits.empty() ? 0 : mean_of(merits);
  for (double& merit : merits) merit -= mean;
  return merits;
}

std::optional<int64_t> SpaceSearch::by_process() {
  const size_t skipped = told_.size() > kMostPoints ? told_.size() - kMostPoints : 0;
  GaussianProcess::Points all, valid;
  std::vector<double> outcomes, values;
  std::set<int64_t> pending = asked_;
  for (const Told& told : told_) pending.erase(told.candidate);
  for (size_t i = skipped; i < told_.size(); ++i) {
    all.push_back(space_.features(told_[i].candidate));
    outcomes.push_back(told_[i].value ? 1 : 0);
    if (!told_[i].value) continue;
    valid.push_back(all.back());
    values.push_back(*told_[i].value);
  }
  if (all.empty()) return random_candidate();
  constexpr double kNoise = 1e-4;
  std::vector<double> merits = merits_of(values);
  const double best = merits.empty() ? 0 : *std::max_element(merits.begin(), merits.end());
  const bool all_valid = values.size() == all.size();
  constexpr size_t kEnough = 4;
  if (merits.size() >= kEnough && (merits.size() < 32 || merits.size() >= fitted_at_ + 8)) {
    lengths_ =
        fitted_lengths(valid, merits, space_.dimension_of_feature(), space_.dimensions(), kNoise);
    fitted_at_ = merits.size();
  }
  // Those under way are taken to be as good as the mean: the next one is to be elsewhere.
  for (const int64_t candidate : pending) {
    valid.push_back(space_.features(candidate));
    merits.push_back(0);
  }
  const GaussianProcess merit(valid, merits, space_.dimension_of_feature(), {lengths_, kNoise});
  // What is not known is taken to be valid as often as the others were, one more of them being so.
  const double usually = (std::accumulate(outcomes.begin(), outcomes.end(), 0.0) + 1) /
                         (static_cast<double>(outcomes.size()) + 1);
  for (double& outcome : outcomes) outcome -= usually;
  const GaussianProcess validity(all, outcomes, space_.dimension_of_feature(), {lengths_, 1e-2});

  std::optional<int64_t> chosen;
  double most = -1;
  for (const int64_t candidate : candidates()) {
    const std::vector<double> point = space_.features(candidate);
    const double chance =
        all_valid ? 1 : std::clamp(usually + validity.at(point).mean, kLeastChance, 1.0);
    const GaussianProcess::Guess guess = merit.at(point);
    const double gain = values.empty() ? guess.deviation : expected_improvement(guess, best);
    if (chance * gain <= most) continue;
    most = chance * gain;
    chosen = candidate;
  }
  return chosen;
}

// As ado's SimpleStopper: so many values that are no gain, behind the first ones, end the search.
void SpaceSearch::look_at_stops(const std::optional<double>& value) {
  if (value && (!best_ || better(*value, *best_))) {
    best_ = value;
    return;
  }
  const bool counts = value || plan_.counts_failures;
  if (plan_.patience < 0 || !counts || std::ssize(told_) <= plan_.patience_begins) return;
  if (++without_gain_ > plan_.patience) stopped_ = true;
}

void SpaceSearch::tell(int64_t candidate, std::optional<double> value) {
  asked_.insert(candidate);  // what a store holds was not asked for
  if (value && !std::isfinite(*value)) value.reset();
  if (!value) value = plan_.failed_value;
  told_.push_back({candidate, value});
  look_at_stops(value);
}

}  // namespace sftbench
