#include "sftbench/space/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
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
                     Steps steps)
    : property_(property), first_(first), step_(step), count_(count), steps_(steps) {}

Json Dimension::value(int64_t index) const {
  check(index >= 0 && index < count_, "the index is below the dimension's size");
  if (!values_.empty()) return values_[static_cast<size_t>(index)];
  const double value = first_ + static_cast<double>(index) * step_;
  if (steps_ == Steps::kIntegers) return static_cast<int64_t>(value);
  return steps_ == Steps::kFloats ? rounded_to_ten_decimals(value) : value;
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
  const Json exact = value(found);
  const bool same = python_str(exact) == text;
  if (steps_ == Steps::kFloats || same) return same ? std::optional(found) : std::nullopt;
  const Json other = steps_ == Steps::kIntegers ? Json(exact.get<double>())
                                                : Json(static_cast<int64_t>(exact.get<double>()));
  return python_str(other) == text ? std::optional(found) : std::nullopt;
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
  entity.ids = ids;
  entity.values.resize(dimensions.size());
  for (size_t i = dimensions.size(); i-- > 0;) {
    const Dimension& dimension = dimensions[i];
    entity.values[i] = {dimension.property().identifier, dimension.value(index % dimension.size())};
    index /= dimension.size();
  }
  return entity;
}

namespace {

constexpr int64_t kMostHashed = 1'000'000;

// Identifiers cannot be split by themselves (names and values hold '-' and '.'), but a part ends
// where the next dimension's name begins, or the text does: every such place is tried. `order` has
// the dimensions as the id names them.
std::optional<int64_t> find_spelled(const Space& space, const std::string& wanted,
                                    const std::vector<size_t>& order) {
  struct Place {
    size_t part;
    size_t position;  // where the part begins
    int64_t index;    // of the entity, as far as the parts before it say
  };
  std::vector<int64_t> weights(space.dimensions.size(), 1);
  for (size_t i = weights.size(); i-- > 1;) {
    weights[i - 1] = weights[i] * space.dimensions[i].size();
  }
  const auto prefix_of = [&](size_t part) {
    return (part == 0 ? "" : "-") + space.dimensions[order[part]].property().identifier + ".";
  };
  std::vector<Place> open = {{0, 0, 0}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (place.part == order.size()) return place.index;
    const size_t dimension = order[place.part];
    const std::string prefix = prefix_of(place.part);
    if (wanted.compare(place.position, prefix.size(), prefix) != 0) continue;
    const size_t start = place.position + prefix.size();
    const bool last = place.part + 1 == order.size();
    const std::string next = last ? std::string() : prefix_of(place.part + 1);
    for (size_t end = last ? wanted.size() : wanted.find(next, start); end != std::string::npos;
         end = last ? std::string::npos : wanted.find(next, end + 1)) {
      const auto digit = space.dimensions[dimension].index_of({wanted.data() + start, end - start});
      if (digit) open.push_back({place.part + 1, end, place.index + *digit * weights[dimension]});
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<size_t> Space::order_in_ids(AdoIds generation) const {
  std::vector<size_t> order(dimensions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (generation == AdoIds::k17) return order;
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return dimensions[a].property().identifier < dimensions[b].property().identifier;
  });
  return order;
}

std::optional<int64_t> Space::find(const std::string& wanted) const {
  if (entity_count() == 0) return std::nullopt;
  if (is_shortened_id(wanted)) {
    for (int64_t index = 0; index < std::min(entity_count(), kMostHashed); ++index) {
      Entity candidate = entity(index);
      candidate.ids = AdoIds::k18;
      for (size_t i = 0; i < dimensions.size(); ++i) {
        Json& value = candidate.values[i].second;
        if (dimensions[i].counts_integers()) value = static_cast<int64_t>(value.get<double>());
      }
      if (entity_id(candidate) == wanted) return index;
    }
    return std::nullopt;
  }
  for (const AdoIds generation : {AdoIds::k18, AdoIds::k17}) {
    if (const auto index = find_spelled(*this, wanted, order_in_ids(generation))) return index;
  }
  return std::nullopt;
}

}  // namespace sftbench
