// Cells that have a result in the store, of an earlier sweep or of another process.
#pragma once

#include "sftbench/sweep/store_view.h"
#include "sftbench/sweep/sweep.h"
#include "sweep/cell_queue.h"
#include "sweep/store_guard.h"

namespace sftbench {

class SettledBefore {
 public:
  // All references outlive it. What it finds is counted in `state` and said to the observer.
  SettledBefore(const CellPlanner& planner, const SweepOptions& options, StoreView& stored,
                CellQueue& queue, StoreGuard& guard, SweepState& state, SweepObserver& observer);

  // True when nothing is left to do for the cell.
  bool settled(Cell& cell);

  // A worker among many: what has a result is not read before all that has none was looked for, or
  // each of them would read all that the others write. True when the cell waits for that.
  bool left_unread(const Cell& cell);

  // Of a cell that was left unread. False when it has to be measured after all; it is a whole cell
  // then.
  bool settled_at_last(Cell& cell);

 private:
  void take(const Cell& cell, Status status);

  const CellPlanner& planner_;
  const SweepOptions& options_;
  StoreView& stored_;
  CellQueue& queue_;
  StoreGuard& guard_;
  SweepState& state_;
  SweepObserver& observer_;
};

}  // namespace sftbench
