#include "sftbench/base/quantity_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace sftbench {
namespace {

// Three significant digits.
std::string scaled(double value, double base, const std::vector<const char*>& units) {
  size_t unit = 0;
  for (; std::fabs(value) >= base && unit + 1 < units.size(); ++unit) value /= base;
  const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f%s", decimals, value, units[unit]);
  return text.data();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::max(0.0, std::round(seconds)));
  std::array<char, 48> text{};
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", whole / 60, whole % 60);
  }
  return text.data();
}

std::string bytes_text(double bytes) {
  return scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string quantity_text(double value) {
  return scaled(value, 1000, {"", " k", " M", " G", " T", " P"});
}

std::string counted(int64_t count, std::string_view one, std::string_view many) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(one);
  return many.empty() ? text.append(one) + "s" : text.append(many);
}

double short_figure(double value) {
  if (value == 0 || std::fabs(value) >= 1) return std::round(value * 100) / 100;
  const double parts = std::pow(10.0, 2 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * parts) / parts;
}

}  // namespace sftbench
