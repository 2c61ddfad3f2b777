// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sftbench {

inline constexpr double kGiB = 1 << 30;  // in bytes

// "0:07", "12:34", "1:02:03".
std::string duration_text(double seconds);

// "512 B", "1.5 GiB": at most four characters of number.
std::string bytes_text(double bytes);

// "950", "12.3 k", "4.56 T": with a decimal prefix.
std::string quantity_text(double value);

// "1 row", "2 rows", "3 entries": `many` is needed where it is not `one` with an s.
std::string counted(int64_t count, std::string_view one, std::string_view many = {});

// Rounded to two decimals, or to three digits of what is below 1: a small time or price is not 0.
double short_figure(double value);

}  // namespace sftbench
