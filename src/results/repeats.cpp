#include "sftbench/results/repeats.h"

#include <algorithm>
#include <cmath>

namespace sftbench {
namespace {

std::vector<double> sorted_numbers(const std::vector<Scalar>& values) {
  std::vector<double> numbers;
  for (const Scalar& value : values) {
    if (const std::optional<double> number = value.as_number()) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

double mean(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

double variance(const std::vector<double>& numbers) {
  const double center = mean(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - center) * (number - center);
  return squares / static_cast<double>(numbers.size());
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Repeats> group_repeats(const std::vector<StoredResult>& results) {
  std::vector<Repeats> groups;
  groups.reserve(results.size());
  size_t key_begins = 0;  // the groups of the key that is being read
  for (const StoredResult& result : results) {
    if (!groups.empty()) {
      const StoredResult& before = groups.back().first();
      if (before.key != result.key || before.experiment != result.experiment) {
        key_begins = groups.size();
      }
    }
    const auto same =
        std::find_if(groups.begin() + static_cast<std::ptrdiff_t>(key_begins), groups.end(),
                     [&](const Repeats& group) { return group.first().status == result.status; });
    if (same != groups.end()) {
      same->samples.push_back(&result);
    } else {
      groups.push_back({{&result}});
    }
  }
  return groups;
}

const std::vector<std::string>& aggregate_names() {
  static const std::vector<std::string> kNames = {"median", "mean", "variance", "std",
                                                  "min",    "max",  "list"};
  return kNames;
}

Scalar aggregate(const std::vector<Scalar>& values, Aggregate method) {
  const std::vector<double> numbers = sorted_numbers(values);
  if (numbers.empty()) return {};
  const auto of_extreme = [&](double extreme) {  // an integer stays one
    return *std::find_if(values.begin(), values.end(),
                         [&](const Scalar& value) { return value.as_number() == extreme; });
  };
  switch (method) {
    case Aggregate::kMedian:
      return Scalar::number(median(numbers));
    case Aggregate::kMean:
      return Scalar::number(mean(numbers));
    case Aggregate::kVariance:
      return Scalar::number(variance(numbers));
    case Aggregate::kStd:
      return Scalar::number(std::sqrt(variance(numbers)));
    case Aggregate::kMin:
      return of_extreme(numbers.front());
    case Aggregate::kMax:
      return of_extreme(numbers.back());
    case Aggregate::kList:
      break;
  }
  check(false, "a list is not one number");
  return {};
}

Scalar typical_value(const std::vector<Scalar>& values) {
  const bool equal = std::all_of(values.begin(), values.end(),
                                 [&](const Scalar& value) { return value == values.front(); });
  return equal ? values.front() : aggregate(values, Aggregate::kMedian);
}

std::optional<double> spread_percent(const std::vector<Scalar>& values) {
  const std::vector<double> numbers = sorted_numbers(values);
  if (numbers.size() < 2 || median(numbers) == 0) return std::nullopt;
  return 100 * (numbers.back() - numbers.front()) / median(numbers);
}

const Scalar& Picker::operator()(const Record& record) {
  static const Scalar kNothing;
  const Scalar* found = find(record);
  return found == nullptr ? kNothing : *found;
}

const Scalar* Picker::find(const Record& record) {
  if (record.size() == 0) return nullptr;
  if (record.names() != names_) {
    names_ = record.names();
    const auto found = std::find(names_->begin(), names_->end(), name_);
    index_ = found == names_->end() ? std::nullopt : std::optional<size_t>(found - names_->begin());
  }
  return index_ ? &record.value(*index_) : nullptr;
}

}  // namespace sftbench
