// Stops a sweep that only burns through its space: when measurement after measurement fails within
// seconds, the machine is broken (a full disk, a lost driver), not the configurations. Only what a
// child process ended as counts: a failure that was known before anything started proves nothing
// about the machine.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/results/measurement.h"

namespace sftbench {

class CircuitBreaker {
 public:
  // Trips at `failures` failed measurements in a row, each of them shorter than `quick_s`; 0:
  // never.
  CircuitBreaker(int64_t failures, double quick_s) : failures_(failures), quick_s_(quick_s) {}

  void ended(const Measurement& measurement, double seconds);

  bool tripped() const { return failures_ > 0 && in_a_row_ >= failures_; }

  // One sentence: how many, how quick, and the last one's reason.
  std::string message() const;

 private:
  int64_t failures_;
  double quick_s_;
  int64_t in_a_row_ = 0;
  std::string last_reason_;
};

}  // namespace sftbench
