// Where a sweep's cells come from, in this order:
//   the walk
//   cells whose results were left unread
//   cells that failed and are tried again
//   cells that another sweep measures, which are looked at again from time to time
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>

#include "sftbench/space/operation.h"
#include "sftbench/sweep/cell.h"

namespace sftbench {

class CellQueue {
 public:
  // Both outlive the queue.
  CellQueue(WalkSource& walk, const CellPlanner& planner) : walk_(walk), planner_(planner) {}

  // Nothing when there is none now; next_at_s() says when to ask again. `under_way`: cells whose
  // results are still to come. `unread`: it was given to leave_unread(), and has no more than its
  // experiment, its key and its place in the walk.
  struct Next {
    Cell cell;
    bool unread = false;
  };
  std::optional<Next> next(double now_s, int64_t under_way);

  // It has a result, which is read when all without one have had their turn.
  void leave_unread(const Cell& cell);
  size_t unread() const { return unread_.size(); }

  // Goes on elsewhere (0 to 1) in what is left of the walk.
  void jump(double part) { walk_.jump(part); }

  // steady_seconds(); infinity when nothing is left.
  double next_at_s(double now_s, int64_t under_way) const;

  void retry(Cell cell) { retries_.push_back(std::move(cell)); }
  // Another sweep has its claim: looked at again within `most_s` seconds, and soon at first.
  void put_off(Cell cell, double now_s, double most_s);

  void keep_only_retries();  // of what was begun already

  size_t retries() const { return retries_.size(); }
  size_t put_off_count() const { return busy_.size(); }

 private:
  struct Unread {
    const std::string* experiment;
    std::string key;
    WalkStep step;
  };
  struct Busy {
    Cell cell;
    double look_again_s;
  };

  WalkSource& walk_;
  const CellPlanner& planner_;
  bool walk_ended_ = false;
  std::set<std::string> experiments_;  // whose names Unread points to
  std::deque<Unread> unread_;
  std::deque<Cell> retries_;
  std::deque<Busy> busy_;  // the one to look at first in front
};

}  // namespace sftbench
