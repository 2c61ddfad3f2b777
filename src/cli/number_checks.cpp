#include "cli/number_checks.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace sftbench {
namespace {

std::string refusal(const std::string& word, const std::string& expected) {
  return "found '" + word + "'; expected " + expected;
}

CLI::Validator numbers(const std::string& type, const std::string& expected,
                       std::function<bool(double)> fits) {
  const auto problem = [expected, fits = std::move(fits)](const std::string& word) -> std::string {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    if (!word.empty() && *end == '\0' && std::isfinite(number) && fits(number)) return {};
    return refusal(word, expected);
  };
  return {problem, type};
}

template <typename Integer>
std::optional<Integer> parsed(const std::string& word) {
  Integer value = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string short_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", number);
  return text;
}

}  // namespace

CLI::Validator whole_number(int64_t least, uint64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const std::string type = most < kMostCount ? std::to_string(least) + ".." + std::to_string(most)
                                             : (least > 0 ? "POSITIVE" : "NONNEGATIVE");
  const auto transform = [least, most, range](std::string& word) -> std::string {
    if (const auto number = parsed<uint64_t>(word)) {
      if (*number <= most && (least <= 0 || *number >= static_cast<uint64_t>(least))) {
        word = std::to_string(*number);
        return {};
      }
    } else if (const auto negative = parsed<int64_t>(word); negative && *negative >= least) {
      word = std::to_string(*negative);
      return {};
    }
    return refusal(word, "a whole number from " + range);
  };
  return {transform, type};
}

CLI::Validator number(double least, double most) {
  const std::string from = short_text(least), to = short_text(most);
  return numbers(from + ".." + to, "a number from " + from + " to " + to,
                 [least, most](double value) { return value >= least && value <= most; });
}

CLI::Validator above_zero() {
  return numbers("POSITIVE", "a number above 0", [](double value) { return value > 0; });
}

CLI::Validator byte_count() {
  const auto transform = [](std::string& word) -> std::string {
    const std::string given = word, expected = "a whole number of bytes above 0: 64GiB";
    if (word.find_first_not_of("0123456789") == 0) return refusal(given, expected);
    // Throws for what is beyond 2^64 and for an unknown unit.
    try {
      (void)CLI::AsSizeValue(/*kb_is_1000=*/false)(word);
    } catch (const CLI::ValidationError&) {
      return refusal(given, expected);
    }
    const auto bytes = parsed<uint64_t>(word);
    const bool fits = bytes && *bytes > 0 && *bytes <= std::numeric_limits<int64_t>::max();
    return fits ? std::string() : refusal(given, expected);
  };
  return {transform, ""};
}

}  // namespace sftbench
