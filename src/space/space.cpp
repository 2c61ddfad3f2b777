#include "sftbench/space/space.h"

#include <cmath>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

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
  constexpr double kTenDecimals = 1e10;
  return std::nearbyint(value * kTenDecimals) / kTenDecimals;
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

// Identifiers cannot be split (names and values hold '-' and '.'), but each dimension contributes a
// prefix that is known: the search follows only the values that the text still allows.
std::optional<int64_t> Space::find(const std::string& wanted) const {
  struct Place {
    size_t dimension;
    size_t position;
    int64_t index;
  };
  std::vector<Place> open = {{0, 0, 0}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (place.dimension == dimensions.size()) {
      if (place.position == wanted.size()) return place.index;
      continue;
    }
    const Dimension& dimension = dimensions[place.dimension];
    const std::string prefix =
        (place.dimension == 0 ? "" : "-") + dimension.property().identifier + ".";
    if (wanted.compare(place.position, prefix.size(), prefix) != 0) continue;
    for (int64_t i = 0; i < dimension.size(); ++i) {
      const std::string text = python_str(dimension.value(i));
      const size_t start = place.position + prefix.size();
      if (wanted.compare(start, text.size(), text) != 0) continue;
      open.push_back(
          {place.dimension + 1, start + text.size(), place.index * dimension.size() + i});
    }
  }
  return std::nullopt;
}

}  // namespace sftbench
