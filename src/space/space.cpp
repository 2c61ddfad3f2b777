#include "sftbench/space/space.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// As Python's round() does it: through the decimal text. Scaling by 1e10 would cost large numbers
// their last digits.
double rounded_to_ten_decimals(double value) {
  char text[400];
  const auto [end, error] =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, 10);
  double rounded = value;
  if (error == std::errc()) std::from_chars(text, end, rounded);
  return rounded;
}

}  // namespace

Dimension::Dimension(const PropertySpec* property, std::vector<Json> values)
    : property_(property),
      values_(std::move(values)),
      count_(static_cast<int64_t>(values_.size())) {}

Dimension::Dimension(const PropertySpec* property, double first, double step, int64_t count,
                     bool integral)
    : property_(property), first_(first), step_(step), count_(count), integral_(integral) {}

Json Dimension::value(int64_t index) const {
  check(index >= 0 && index < count_, "the index is below the dimension's size");
  if (!values_.empty()) return values_[static_cast<size_t>(index)];
  const double value = first_ + static_cast<double>(index) * step_;
  if (integral_) return static_cast<int64_t>(value);
  return rounded_to_ten_decimals(value);
}

std::optional<int64_t> Dimension::index_of(std::string_view text) const {
  if (!values_.empty()) {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (python_str(values_[i]) == text) return static_cast<int64_t>(i);
    }
    return std::nullopt;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const double index = std::round((number - first_) / step_);
  if (!(index >= 0 && index < static_cast<double>(count_))) return std::nullopt;
  const auto found = static_cast<int64_t>(index);
  return python_str(value(found)) == text ? std::optional(found) : std::nullopt;
}

int64_t Space::entity_count() const {
  int64_t count = 1;
  for (const Dimension& dimension : dimensions) count *= dimension.size();
  return count;
}

Entity Space::entity(int64_t index) const {
  check(index >= 0 && index < entity_count(), "the index is below the number of entities");
  Entity entity;
  entity.index = index;
  entity.values.resize(dimensions.size());
  for (size_t i = dimensions.size(); i-- > 0;) {
    const Dimension& dimension = dimensions[i];
    entity.values[i] = {dimension.property().identifier, dimension.value(index % dimension.size())};
    index /= dimension.size();
  }
  return entity;
}

// Identifiers cannot be split by themselves (names and values hold '-' and '.'), but a part ends
// where the next dimension's name begins, or the text does: every such place is tried.
std::optional<int64_t> Space::find(const std::string& wanted) const {
  struct Place {
    size_t dimension;
    size_t position;  // where the dimension's part begins
    int64_t index;    // of the dimensions before it
  };
  const auto prefix_of = [this](size_t i) {
    return (i == 0 ? "" : "-") + dimensions[i].property().identifier + ".";
  };
  std::vector<Place> open = {{0, 0, 0}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (place.dimension == dimensions.size()) return place.index;
    const Dimension& dimension = dimensions[place.dimension];
    const std::string prefix = prefix_of(place.dimension);
    if (wanted.compare(place.position, prefix.size(), prefix) != 0) continue;
    const size_t start = place.position + prefix.size();
    const bool last = place.dimension + 1 == dimensions.size();
    const std::string next = last ? std::string() : prefix_of(place.dimension + 1);
    for (size_t end = last ? wanted.size() : wanted.find(next, start); end != std::string::npos;
         end = last ? std::string::npos : wanted.find(next, end + 1)) {
      const auto digit = dimension.index_of({wanted.data() + start, end - start});
      if (digit)
        open.push_back({place.dimension + 1, end, place.index * dimension.size() + *digit});
    }
  }
  return std::nullopt;
}

}  // namespace sftbench
