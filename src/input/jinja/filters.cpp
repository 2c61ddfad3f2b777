// jinja2's filters by name, and those of single values.
#include "jinja/filters.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "jinja/text.h"

namespace sftbench::jinja {
namespace {

Value absolute(Runtime&, const Value& value, Arguments arguments) {
  const Bound none("abs", {}, std::move(arguments));
  require_defined(value);
  if (!value.is_number())
    throw TemplateError("bad operand type for abs(): '" + value.type_name() + "'");
  if (value.is_integer()) return value.integer() < 0 ? negative(value) : value.integer();
  return std::abs(value.number());
}

Value attribute(Runtime& runtime, const Value& value, Arguments arguments) {
  const Bound bound("attr", {"name"}, std::move(arguments));
  bound.required(0);
  if (value.mapping() && !method_of(value, bound.text(0, "")))
    return Undefined{"'dict object' has no attribute " + in_quotes(bound.text(0, ""))};
  return attribute_of(runtime, value, bound.text(0, ""));
}

Value default_of(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("default", {"default_value", "boolean"}, std::move(arguments));
  const bool missing = value.is_undefined() || (bound.truth(1, false) && !value.truth());
  return !missing ? value : bound.has(0) ? bound[0] : Value("");
}

// The number that a text begins and ends with, or false.
bool read_integer(const std::string& text, int base, int64_t& number) {
  const std::string digits(stripped(text, Side::kBoth));
  if (digits.empty()) return false;
  char* end = nullptr;
  errno = 0;
  number = std::strtoll(digits.c_str(), &end, base);
  return errno == 0 && end == digits.c_str() + digits.size();
}

bool read_float(const std::string& text, double& number) {
  const std::string digits(stripped(text, Side::kBoth));
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos) return false;
  char* end = nullptr;
  number = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size();
}

Value to_integer(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("int", {"default", "base"}, std::move(arguments));
  require_defined(value);
  const Value otherwise = bound.has(0) ? bound[0] : Value(int64_t{0});
  const auto base = static_cast<int>(bound.integer(1, 10));
  if (base < 2 || base > 36) throw TemplateError("int() base must be >= 2 and <= 36");
  double number = 0;
  int64_t integer = 0;
  if (value.is_integer()) return value.integer();
  if (value.is_text() && read_integer(value.text(), base, integer)) return integer;
  if (value.is_text() && !read_float(value.text(), number)) return otherwise;
  if (!value.is_text() && !value.is<double>()) return otherwise;
  if (value.is<double>()) number = value.number();
  return std::abs(number) < 9e18 ? Value(static_cast<int64_t>(number)) : otherwise;
}

Value to_float(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("float", {"default"}, std::move(arguments));
  require_defined(value);
  double number = 0;
  if (value.is_number()) return value.number();
  if (value.is_text() && read_float(value.text(), number)) return number;
  return bound.has(0) ? bound[0] : Value(0.0);
}

Value rounded(Runtime&, const Value& value, Arguments arguments) {
  const Bound bound("round", {"precision", "method"}, std::move(arguments));
  const std::string method = bound.text(1, "common");
  require_defined(value);
  if (!value.is_number())
    throw TemplateError("type " + value.type_name() + " doesn't define __round__ method");
  const int64_t precision = std::clamp<int64_t>(bound.integer(0, 0), -30, 30);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  // Python rounds to an integer first, which has no negative zero.
  if (method == "ceil") return (std::ceil(value.number() * scale) + 0.0) / scale;
  if (method == "floor") return (std::floor(value.number() * scale) + 0.0) / scale;
  if (method != "common") throw TemplateError("method must be common, ceil or floor");
  if (value.is_integer() && precision >= 0) return value.integer();
  if (value.is_integer())
    return static_cast<int64_t>(std::nearbyint(value.number() * scale) / scale);
  if (precision <= 0) return std::nearbyint(value.number() * scale) / scale;
  // Digits of the exact value decide, as in Python.
  char digits[420];
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value.number());
  return std::strtod(digits, nullptr);
}

Value unchanged(Runtime&, const Value& value, Arguments) {
  return value;
}

}  // namespace

const Filters& value_filters() {
  static const Filters kFilters{
      {"abs", absolute},   {"attr", attribute}, {"d", default_of},  {"default", default_of},
      {"float", to_float}, {"int", to_integer}, {"round", rounded}, {"safe", unchanged},
  };
  return kFilters;
}

namespace {

const Filters& filters() {
  static const Filters kFilters = [] {
    Filters all = value_filters();
    all.insert(text_filters().begin(), text_filters().end());
    all.insert(sequence_filters().begin(), sequence_filters().end());
    return all;
  }();
  return kFilters;
}

}  // namespace

Filter filter_named(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const auto& [name, filter] : filters()) names.push_back(name);
  return names;
}

}  // namespace sftbench::jinja
