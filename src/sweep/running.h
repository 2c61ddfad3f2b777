// A cell whose turn it is, and one that is measured.
#pragma once

#include <memory>
#include <optional>

#include "sftbench/launch/run_series.h"
#include "sftbench/results/claim.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/machine.h"

namespace sftbench {

struct Running {
  Cell cell;
  CellPlan plan;
  std::shared_ptr<Claim> claim;  // given back when the child has ended and its result is written
  Share share;
  RunSeries child;
  int64_t neighbours = 0;  // the most that ran beside this sample at a time
  bool given_up = false;   // its claim was lost
};

struct Candidate {
  Cell cell;
  std::optional<CellPlan> plan;
  bool unread = false;  // CellQueue::Next
};

}  // namespace sftbench
