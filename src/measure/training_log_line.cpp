#include "sftbench/measure/training_log_line.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "sftbench/base/clock.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// Python's round(epoch, 2), which rounds the decimal number and not its hundredfold.
double two_decimals(double epoch) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.2f", epoch);
  return std::strtod(text.data(), nullptr);
}

}  // namespace

std::string training_log_line(const std::string& name, double epoch, int64_t step, int64_t unix_us,
                              double value) {
  const Json data = {{"epoch", two_decimals(epoch)},
                     {"step", step},
                     {"timestamp", local_time_iso8601(unix_us)},
                     {"value", std::isfinite(value) ? Json(value) : Json()}};
  return json_text({{"data", data}, {"name", name}}) + "\n";
}

}  // namespace sftbench
