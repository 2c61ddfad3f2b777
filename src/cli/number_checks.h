// What an option's number may be, with one error for all that is wrong with it, behind the option's
// name: "found 'nan'; expected a number from 0.1 to 86400". CLI11's own checks let NaN pass, its
// conversions take "-1" for a large size and "010" for 8, and neither says value and bounds.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace sftbench {

// Counts beyond this overflow what is computed of them. Help calls a range up to it POSITIVE or
// NONNEGATIVE.
inline constexpr uint64_t kMostCount = 1'000'000'000'000;
inline constexpr uint64_t kMostTokenCount = 1'000'000'000'000'000;  // of a training, or parameters
inline constexpr double kLeastSeconds = 1e-3;
inline constexpr double kMostSeconds = 1e9;  // 31 years
inline constexpr uint64_t kMostThreads = 65536;

// Both bounds included. For Option::transform(): CLI11 gets digits of "50k", "1.5M", "2B" and
// "010".
CLI::Validator whole_number(int64_t least, uint64_t most = kMostCount);

// Finite, both bounds included. For Option::check(), as above_zero().
CLI::Validator number(double least, double most);
CLI::Validator above_zero();

// A plain number is of seconds. "90s", "30m", "2h", "1d" and "1h 30m" have units. Nothing for other
// texts.
std::optional<double> seconds_of_duration(std::string_view text);

// "1h30m" -> "5400", both bounds included. For Option::transform().
CLI::Validator duration(double least_s, double most_s);

// "64GiB" -> "68719476736", at least 1. For Option::transform().
CLI::Validator byte_count();

}  // namespace sftbench
