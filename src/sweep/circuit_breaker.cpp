#include "sweep/circuit_breaker.h"
#include "sftbench/base/quantity_text.h"

#include <array>
#include <cstdio>

namespace sftbench {

void CircuitBreaker::ended(const Measurement& measurement, double seconds) {
  if (measurement.status != Status::kFailed || seconds >= quick_s_) {
    in_a_row_ = 0;
    return;
  }
  ++in_a_row_;
  if (!measurement.reason) return;
  last_reason_ =
      std::string(to_string(measurement.reason->code)) + ": " + measurement.reason->message;
}

std::string CircuitBreaker::message() const {
  std::array<char, 32> quick{};
  std::snprintf(quick.data(), quick.size(), "%g s", quick_s_);
  return counted(in_a_row_, "measurement") + " in a row failed, each within " + quick.data() +
         ", so this machine is suspected and not the space (the last one: " + last_reason_ + ")";
}

}  // namespace sftbench
