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

#include "sftbench/base/text.h"

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

// "50k", "1.5M", "1e9": of what is no plain number, where it is a whole one.
std::optional<uint64_t> short_count(std::string_view word) {
  constexpr std::string_view kUnits = "kMB";
  const size_t unit = word.empty() ? kUnits.npos : kUnits.find(word.back());
  if (unit != kUnits.npos) word.remove_suffix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  if (unit != kUnits.npos) number *= std::pow(1000.0, static_cast<double>(unit + 1));
  const double whole = std::round(number);
  const bool fits = number >= 0 && number <= static_cast<double>(kMostTokenCount);
  if (!fits || std::abs(number - whole) > 1e-9 * whole) return std::nullopt;
  return static_cast<uint64_t>(whole);
}

constexpr uint64_t kLeastShortened = 100'000;  // what may be more is shown with a unit

std::string short_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", number);
  return text;
}

}  // namespace

CLI::Validator whole_number(int64_t least, uint64_t most) {
  const bool is_count = most >= kLeastShortened && most <= kMostTokenCount;
  const std::string range = std::to_string(least) + " to " + std::to_string(most) +
                            (!is_count          ? ""
                             : most > 2'000'000 ? ": 50k, 1.5M"
                                                : ": 50k");
  const std::string type = most < kMostCount ? std::to_string(least) + ".." + std::to_string(most)
                                             : (least > 0 ? "POSITIVE" : "NONNEGATIVE");
  const auto transform = [least, most, range](std::string& word) -> std::string {
    const std::optional<uint64_t> plain = parsed<uint64_t>(word);
    if (const auto number = plain ? plain : short_count(word)) {
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

std::optional<double> seconds_of_duration(std::string_view text) {
  const auto number_in = [&text](std::chars_format format) -> std::optional<double> {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, format);
    if (error != std::errc() || number < 0 || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
  };
  const std::string_view whole = text = trimmed(text);
  const std::optional<double> plain = number_in(std::chars_format::general);
  if (plain && text.empty()) return plain;
  text = whole;
  double seconds = 0;
  while (!text.empty()) {
    const std::optional<double> number = number_in(std::chars_format::fixed);
    text = trimmed(text);
    if (!number || text.empty()) return std::nullopt;
    const std::string_view units = "smhd";
    constexpr double kSeconds[] = {1, 60, 3600, 86400};
    const size_t unit = units.find(text.front());
    if (unit == std::string_view::npos) return std::nullopt;
    text = trimmed(text.substr(1));
    seconds += *number * kSeconds[unit];
  }
  return whole.empty() ? std::nullopt : std::optional(seconds);
}

CLI::Validator duration(double least_s, double most_s) {
  const std::string expected = "a duration from " + short_text(least_s) + " to " +
                               short_text(most_s) + " s: 90, 90s, 30m, 2h, 1h 30m, 1d";
  const auto transform = [=](std::string& word) -> std::string {
    const std::optional<double> seconds = seconds_of_duration(word);
    if (!seconds || *seconds < least_s || *seconds > most_s) return refusal(word, expected);
    char text[32];
    word.assign(text, std::to_chars(text, text + sizeof text, *seconds).ptr);
    return {};
  };
  return {transform, "DURATION"};
}

CLI::Validator byte_count() {
  const auto transform = [](std::string& word) -> std::string {
    const std::string given = word, expected = "a whole number of bytes above 0: 64GiB";
    if (word.find_first_not_of("0123456789") == 0) return refusal(given, expected);
    // Throws for what is beyond 2^64 and for an unknown unit.
    try {
      (void)CLI::AsSizeValue(/*kb_is_1000=*/true)(word);
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
