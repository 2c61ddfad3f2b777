// Figures as tables for people show them.
#pragma once

#include <cmath>

namespace sftbench {

// To multiples of 1 / `parts`.
inline double rounded_to(double value, double parts = 100) {
  return std::round(value * parts) / parts;
}

}  // namespace sftbench
