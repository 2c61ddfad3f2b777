#include "results/html/curve.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "sftbench/base/error.h"

namespace sftbench::html {
namespace {

constexpr double kMostCode = 65534;
constexpr uint16_t kNoCode = 65535;
constexpr uint8_t kHasBand = 1, kSameX = 2;

// Mean, least and greatest of what was added; NaN is passed over.
class Summary {
 public:
  void add(double mean, double least, double greatest) {
    if (std::isnan(mean)) return;
    sum_ += mean;
    least_ = count_ == 0 ? least : std::min(least_, least);
    greatest_ = count_ == 0 ? greatest : std::max(greatest_, greatest);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  double mean() const { return empty() ? kNone : sum_ / static_cast<double>(count_); }
  double least() const { return empty() ? kNone : least_; }
  double greatest() const { return empty() ? kNone : greatest_; }

 private:
  size_t count_ = 0;
  double sum_ = 0, least_ = 0, greatest_ = 0;
};

void append(Curve& curve, double x, const Summary& summary) {
  curve.x.push_back(x);
  curve.mean.push_back(summary.mean());
  curve.least.push_back(summary.least());
  curve.greatest.push_back(summary.greatest());
}

// A band that is no wider than its line is none. A mean of equal numbers is off by a rounding at
// most.
void drop_idle_band(Curve& curve) {
  const auto idle = [](double low, double high) {
    return !(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)));
  };
  for (size_t i = 0; i < curve.least.size(); ++i) {
    if (!idle(curve.least[i], curve.greatest[i])) return;
  }
  curve.least.clear();
  curve.greatest.clear();
}

size_t group_size(size_t count, size_t most) {
  return std::max<size_t>(1, (count + most - 1) / most);
}

double mean_of(const std::vector<double>& numbers, size_t begin, size_t end) {
  return std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(begin),
                         numbers.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
         static_cast<double>(end - begin);
}

Summary summary_of(const std::vector<double>& numbers, size_t begin, size_t end) {
  Summary summary;
  for (size_t i = begin; i < end; ++i) summary.add(numbers[i], numbers[i], numbers[i]);
  return summary;
}

// What a line says at each place: the readings from its edge to the next one, or the last ones
// before.
std::vector<Summary> at_places(const Line& line, const std::vector<double>& edges) {
  std::vector<Summary> places(edges.size());
  for (size_t i = 0; i < line.x.size(); ++i) {
    const auto next = std::upper_bound(edges.begin(), edges.end(), line.x[i]);
    const size_t place = next == edges.begin() ? 0 : static_cast<size_t>(next - edges.begin()) - 1;
    places[place].add(line.values[i], line.values[i], line.values[i]);
  }
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].empty()) places[i] = places[i - 1];
  }
  return places;
}

void put(std::string& bytes, const void* value, size_t size) {
  bytes.append(static_cast<const char*>(value), size);
}

struct Range {
  double low = 0, high = 0;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = none ? value : std::min(low, value);
    high = none ? value : std::max(high, value);
    none = false;
  }
  uint16_t code(double value) const {
    if (!std::isfinite(value)) return kNoCode;
    const double share = high > low ? (value - low) / (high - low) : 0;
    return static_cast<uint16_t>(std::lround(std::clamp(share, 0.0, 1.0) * kMostCode));
  }
  bool none = true;
};

Range range_of(const std::vector<const std::vector<double>*>& columns) {
  Range range;
  for (const std::vector<double>* column : columns) {
    for (const double value : *column) range.add(value);
  }
  return range;
}

void put_codes(std::string& bytes, const std::vector<double>& values, const Range& range) {
  for (const double value : values) {
    const uint16_t code = range.code(value);
    put(bytes, &code, sizeof(code));
  }
}

void put_curve(std::string& bytes, const Curve& curve, const Curve* before) {
  const bool band = !curve.least.empty();
  const bool same_x = before != nullptr && before->x == curve.x;
  const auto quantity = static_cast<uint8_t>(curve.quantity);
  const auto flags = static_cast<uint8_t>((band ? kHasBand : 0) | (same_x ? kSameX : 0));
  const auto places = static_cast<uint16_t>(curve.x.size());
  put(bytes, &quantity, sizeof(quantity));
  put(bytes, &flags, sizeof(flags));
  put(bytes, &places, sizeof(places));
  const Range x = range_of({&curve.x});
  const Range y = range_of({&curve.mean, &curve.least, &curve.greatest});
  for (const double number : {x.low, x.high, y.low, y.high, curve.limit, curve.mark}) {
    const auto narrowed = static_cast<float>(number);
    put(bytes, &narrowed, sizeof(narrowed));
  }
  if (!same_x) put_codes(bytes, curve.x, x);
  put_codes(bytes, curve.mean, y);
  put_codes(bytes, curve.least, y);
  put_codes(bytes, curve.greatest, y);
  bytes.resize((bytes.size() + 3) / 4 * 4);
}

}  // namespace

Curve curve_of(Quantity quantity, const std::vector<double>& x, const std::vector<double>& values,
               size_t most) {
  check(x.size() == values.size(), "a curve has as many values as places");
  Curve curve;
  curve.quantity = quantity;
  const size_t size = group_size(x.size(), most);
  for (size_t begin = 0; begin < x.size(); begin += size) {
    const size_t end = std::min(begin + size, x.size());
    append(curve, mean_of(x, begin, end), summary_of(values, begin, end));
  }
  drop_idle_band(curve);
  return curve;
}

void coarsen(Curve& curve, size_t most) {
  const size_t size = group_size(curve.x.size(), most);
  if (size == 1) return;
  const bool band = !curve.least.empty();
  Curve coarse;
  for (size_t begin = 0; begin < curve.x.size(); begin += size) {
    const size_t end = std::min(begin + size, curve.x.size());
    Summary summary;
    for (size_t i = begin; i < end; ++i) {
      summary.add(curve.mean[i], band ? curve.least[i] : curve.mean[i],
                  band ? curve.greatest[i] : curve.mean[i]);
    }
    append(coarse, mean_of(curve.x, begin, end), summary);
  }
  drop_idle_band(coarse);
  coarse.quantity = curve.quantity;
  coarse.limit = curve.limit;
  coarse.mark = curve.mark;
  curve = std::move(coarse);
}

Curve merged(Quantity quantity, const std::vector<Line>& lines, size_t most) {
  Curve curve;
  curve.quantity = quantity;
  if (lines.empty() || lines.front().x.empty()) return curve;
  const std::vector<double>& x = lines.front().x;
  const size_t size = group_size(x.size(), most);
  std::vector<double> edges;
  for (size_t begin = 0; begin < x.size(); begin += size) edges.push_back(x[begin]);
  std::vector<std::vector<Summary>> places;
  for (const Line& line : lines) places.push_back(at_places(line, edges));
  for (size_t place = 0; place < edges.size(); ++place) {
    struct Sum {
      double mean = 0, least = 0, greatest = 0;
    };
    std::map<int, Sum> groups;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (places[i][place].empty()) continue;
      Sum& sum = groups[lines[i].group];
      sum.mean += places[i][place].mean();
      sum.least += places[i][place].least();
      sum.greatest += places[i][place].greatest();
    }
    Summary all;
    for (const auto& [group, sum] : groups) all.add(sum.mean, sum.least, sum.greatest);
    const size_t begin = place * size;
    append(curve, mean_of(x, begin, std::min(begin + size, x.size())), all);
  }
  drop_idle_band(curve);
  return curve;
}

std::string encoded(const std::vector<Curve>& curves) {
  std::string bytes;
  const Curve* before = nullptr;
  for (const Curve& curve : curves) {
    put_curve(bytes, curve, before);
    before = &curve;
  }
  return bytes;
}

}  // namespace sftbench::html
