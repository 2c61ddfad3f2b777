// YAML 1.1's implicit types, as PyYAML's resolver has them: https://yaml.org/type/
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>

#include "sftbench/base/yaml.h"

namespace sftbench {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Length of the longest prefix made of digits of this base and underscores.
size_t digits(std::string_view text, int base) {
  size_t length = 0;
  while (length < text.size()) {
    const char c = text[length];
    const int digit = is_digit(c)                                    ? c - '0'
                      : std::isxdigit(static_cast<unsigned char>(c)) ? (c | 32) - 'a' + 10
                                                                     : 99;
    if (c != '_' && digit >= base) break;
    ++length;
  }
  return length;
}

// Digits (underscores skipped) as a number; nothing when it does not fit.
std::optional<int64_t> to_integer(std::string_view text, int base) {
  int64_t value = 0;
  for (char c : text) {
    if (c == '_') continue;
    const int digit = is_digit(c) ? c - '0' : (c | 32) - 'a' + 10;
    if (value > (std::numeric_limits<int64_t>::max() - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

// 0b101, 0x1F, 017, 42, each with a sign and underscores.
std::optional<int64_t> integer(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'x')) {
    base = text[1] == 'b' ? 2 : 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  if (digits(text, base) != text.size()) return std::nullopt;
  const std::optional<int64_t> value = to_integer(text, base);
  return value && negative ? std::optional(-*value) : value;
}

// 1:30:00 counts in sixties: [1-9][0-9_]*(:[0-5]?[0-9])+
std::optional<int64_t> sexagesimal(std::string_view text) {
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front()) || text.front() == '0') return std::nullopt;
  const size_t head = digits(text, 10);
  if (head == text.size()) return std::nullopt;
  std::optional<int64_t> value = to_integer(text.substr(0, head), 10);
  text.remove_prefix(head);
  while (!text.empty()) {
    if (text.front() != ':') return std::nullopt;
    text.remove_prefix(1);
    size_t length = 0;
    while (length < text.size() && length < 2 && is_digit(text[length])) ++length;
    if (length == 0 || (length == 2 && text[0] > '5')) return std::nullopt;
    const std::optional<int64_t> part = to_integer(text.substr(0, length), 10);
    if (!value || *value > std::numeric_limits<int64_t>::max() / 60 - 60) return std::nullopt;
    value = *value * 60 + *part;
    text.remove_prefix(length);
  }
  return negative ? std::optional(-*value) : value;
}

// A float needs a point, and its exponent a sign: 1.0e-5 is one, 1e-5 and 1.0e5 are text.
std::optional<double> floating(std::string_view text) {
  std::string number;
  const bool has_sign = !text.empty() && (text.front() == '-' || text.front() == '+');
  if (has_sign) number += text.front();
  std::string_view rest = text.substr(has_sign ? 1 : 0);
  if (is_one_of(rest, {".inf", ".Inf", ".INF"})) {
    const double infinity = std::numeric_limits<double>::infinity();
    return text.front() == '-' ? -infinity : infinity;
  }
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();

  if (rest.empty() || rest.front() == '_') return std::nullopt;
  const size_t whole = digits(rest, 10);
  if (whole == rest.size() || rest[whole] != '.' || (whole == 0 && has_sign)) return std::nullopt;
  const size_t fraction = digits(rest.substr(whole + 1), 10);
  if (whole == 0 && (fraction == 0 || rest[1] == '_')) return std::nullopt;
  size_t end = whole + 1 + fraction;
  if (end < rest.size()) {
    if ((rest[end] | 32) != 'e' || end + 2 >= rest.size()) return std::nullopt;
    if (rest[end + 1] != '-' && rest[end + 1] != '+') return std::nullopt;
    for (char c : rest.substr(end + 2)) {
      if (!is_digit(c)) return std::nullopt;
    }
  }
  for (char c : rest) {
    if (c != '_') number += c;
  }
  return std::strtod(number.c_str(), nullptr);
}

}  // namespace

Json resolve_yaml_scalar(const std::string& text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}))
    return false;
  if (const auto value = integer(text)) return *value;
  if (const auto value = sexagesimal(text)) return *value;
  if (const auto value = floating(text)) return *value;
  return text;
}

bool is_yaml_scalar_type(const std::string& type) {
  return is_one_of(type, {"str", "int", "float", "bool", "null"});
}

std::optional<Json> yaml_scalar_of_type(const std::string& text, const std::string& type) {
  if (type == "str") return Json(text);
  if (type == "null") return Json(nullptr);
  if (type == "bool") {
    const Json value = resolve_yaml_scalar(text);
    return value.is_boolean() ? std::optional(value) : std::nullopt;
  }
  if (type == "int") {
    auto value = integer(text);
    if (!value) value = sexagesimal(text);
    return value ? std::optional<Json>(*value) : std::nullopt;
  }
  if (type != "float") return std::nullopt;
  if (const auto value = floating(text)) return Json(*value);
  // What needs the tag to be a float: 2, 1e3.
  std::string number;
  for (char c : text) {
    if (c != '_') number += c;
  }
  if (number.empty() || number.find_first_not_of("+-.0123456789eE") != std::string::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  return *end == '\0' ? std::optional<Json>(value) : std::nullopt;
}

}  // namespace sftbench
