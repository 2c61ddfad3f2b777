// What chooses a sweep's cells by the results of others.
#pragma once

#include "sftbench/space/operation.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual WalkSource& source() = 0;
  // A cell is settled, by this sweep or before it.
  virtual void tell(const Cell& cell, const Outcome& outcome) = 0;
  // At the end, to the log. `complete`: nothing cut the sweep short. Returns how many cells were
  // decided without a measurement.
  virtual int64_t say_how_it_went(bool complete) const = 0;
};

}  // namespace sftbench
