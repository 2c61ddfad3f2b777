#include "cli/number_checks.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>

namespace sftbench {
namespace {

CLI::Validator numbers(const char* type, const char* expected, std::function<bool(double)> fits) {
  const auto problem = [expected, fits = std::move(fits)](const std::string& word) -> std::string {
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    if (!word.empty() && *end == '\0' && std::isfinite(number) && fits(number)) return {};
    return "found '" + word + "'; expected a number " + expected;
  };
  return {problem, type};
}

}  // namespace

CLI::Validator at_least_zero() {
  return numbers("NONNEGATIVE", "from 0 on", [](double number) { return number >= 0; });
}

CLI::Validator above_zero() {
  return numbers("POSITIVE", "above 0", [](double number) { return number > 0; });
}

}  // namespace sftbench
