// How long cells took, so that none is begun that cannot end in time. Such as it: of its experiment
// and model where one was measured, else of its experiment, else any.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "sftbench/sweep/cell.h"

namespace sftbench {

class CellTimes {
 public:
  void took(const Cell& cell, double seconds);

  // The longest of those such as `cell`; nothing before the first.
  std::optional<double> longest(const Cell& cell) const;

 private:
  std::map<std::string, double> longest_s_;  // "", "EXPERIMENT", "EXPERIMENT MODEL"
};

}  // namespace sftbench
