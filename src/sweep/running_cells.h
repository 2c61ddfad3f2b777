// The cells that are measured now, each by a child process.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/launch/run_series.h"
#include "sftbench/results/claim.h"
#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/machine.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

struct Running {
  Cell cell;
  CellPlan plan;
  std::shared_ptr<Claim> claim;  // given back when the child has ended and its result is written
  Share share;
  RunSeries child;
  int64_t concurrent_cells = 0;  // the most that ran beside this sample at a time
  bool given_up = false;         // its claim was lost
};

class RunningCells {
 public:
  // All references outlive it.
  RunningCells(const ResultStore& store, const SweepOptions& options);

  bool empty() const { return cells_.empty(); }
  size_t size() const { return cells_.size(); }
  bool has(const Cell& cell) const;

  // InputError where no child can be started.
  void start(Cell cell, CellPlan plan, std::shared_ptr<Claim> claim, Share share);
  // The same for the next sample of a cell.
  void restart(Running& running);

  // Asks `goes_on` of each whose child has ended, and forgets those that do not.
  void collect(const std::function<bool(Running&)>& goes_on);

  // A child whose result cannot be kept any more is ended: its successor needs no second one.
  void give_up_lost_claims();
  void end_all(const std::string& why);

  void add_poll_fds(std::vector<pollfd>& fds) const;
  double deadline_s() const;  // the first of them, infinite where nothing runs

  // Puts them into `shown`, and returns how many of them are done, by their parts.
  double show(std::vector<RunningCell>& shown) const;

 private:
  RunSeries child_of(const Cell& cell, const CellPlan& plan, const Claim& claim,
                     const Share& share) const;

  const ResultStore& store_;
  const SweepOptions& options_;
  std::list<Running> cells_;
};

}  // namespace sftbench
