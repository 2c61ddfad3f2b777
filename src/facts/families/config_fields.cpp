#include "families/config_fields.h"

#include <cmath>

namespace sftbench {

std::string shown(const Json& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

const Json* ConfigFields::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigFields::is_null(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

int64_t ConfigFields::extent(const std::string& key) {
  if (find(key) == nullptr) {
    add(key, "missing", "a positive integer");
    return 0;
  }
  return extent(key, 0);
}

int64_t ConfigFields::extent(const std::string& key, int64_t otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  // Parsed text gives unsigned numbers, a value built in the program a signed one.
  const bool fits_signed = value->is_number_integer() &&
                           !(value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX);
  if (fits_signed) {
    const auto number = value->get<int64_t>();
    if (number > 0 && number < kMaxExtent) return number;
  }
  add(key, "found " + shown(*value), "a positive integer below 2^31");
  return otherwise;
}

double ConfigFields::number(const std::string& key, double otherwise, double above,
                            const std::string& expected) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number()) {
    const auto found = value->get<double>();
    if (std::isfinite(found) && found > above) return found;
  }
  add(key, "found " + shown(*value), expected);
  return otherwise;
}

double ConfigFields::positive(const std::string& key, double otherwise) {
  return number(key, otherwise, 0.0, "a number above 0");
}

std::optional<double> ConfigFields::optional_positive(const std::string& key) {
  if (find(key) == nullptr) return std::nullopt;
  return positive(key, 1.0);
}

double ConfigFields::required_positive(const std::string& key) {
  if (find(key) == nullptr) add(key, "missing", "a number above 0");
  return positive(key, 1.0);
}

bool ConfigFields::boolean(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  add(key, "found " + shown(*value), "true or false");
  return otherwise;
}

std::string ConfigFields::text(const std::string& key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  add(key, "found " + shown(*value), "a text");
  return otherwise;
}

void ConfigFields::add(const std::string& key, std::string message, std::string expected,
                       std::string nearest) {
  findings_.push_back({.file = origin_,
                       .line = 0,
                       .key = prefix_ + key,
                       .message = std::move(message),
                       .expected = std::move(expected),
                       .nearest = std::move(nearest)});
}

}  // namespace sftbench
