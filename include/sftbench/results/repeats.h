// Repeated measurements of one configuration, and the one figure that they come to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/scan.h"

namespace sftbench {

// Samples of one key that ended in the same way. A key of which one sample was valid and another
// one was not has two of these: nothing is averaged away.
struct Repeats {
  std::vector<const StoredResult*> samples;  // at least one; the first lends its texts

  const StoredResult& first() const { return *samples.front(); }
};

// In the order of the scan, whose results they look at.
std::vector<Repeats> group_repeats(const std::vector<StoredResult>& results);

// What repeats come to wherever one number stands for them. REQUIRES: at least one value.
double median(std::vector<double> values);

enum class Aggregate { kMedian, kMean, kVariance, kStd, kMin, kMax, kList };

// "median", "mean", ...: the values of --aggregate, in the order of the enumeration.
const std::vector<std::string>& aggregate_names();

// One number for several, as numpy computes it (variance and std of the population), which is what
// ado uses. Nothing when none of them is a number. REQUIRES: another method than kList.
Scalar aggregate(const std::vector<Scalar>& values, Aggregate method);

// The value itself when there is but one or all are equal, else their median.
// REQUIRES: at least one value.
Scalar typical_value(const std::vector<Scalar>& values);

// (largest - smallest) / median in percent: how far repeats lie apart. Nothing for fewer than two.
std::optional<double> spread_percent(const std::vector<Scalar>& values);

// Looks one name up in many records: each list of names is searched once in a row of equal ones.
class Picker {
 public:
  explicit Picker(std::string_view name) : name_(name) {}
  const Scalar& operator()(const Record& record);
  // Null where there is no such name; a stored None is a value.
  const Scalar* find(const Record& record);

 private:
  std::string_view name_;
  const Record::Names* names_ = nullptr;
  std::optional<size_t> index_;
};

}  // namespace sftbench
