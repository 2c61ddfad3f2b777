// Cells that a sweep leaves to others, in few bytes each, because there may be a whole campaign of
// them. This machine cannot measure them, they would not end before its deadline, or something
// blocks their files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sftbench/sweep/cell.h"
#include "sftbench/sweep/store_view.h"
#include "sftbench/sweep/sweep.h"
#include "sweep/cell_times.h"

namespace sftbench {

struct ReasonToLeave {
  std::string kind;  // what such cells have in common
  std::string text;  // for this one
  bool no_time = false;
};

// Asked before a cell is claimed. Nothing: it can be measured, or written down, here and now.
std::optional<ReasonToLeave> reason_to_leave(const Cell& cell, const CellPlan& plan,
                                             const SweepOptions& options, const CellTimes& times);

class LeftCells {
 public:
  void add(const Cell& cell, const ReasonToLeave& reason);

  // Forgets those that others have settled by now, and returns the rest.
  std::vector<CellsLeft> remaining(StoreView& store);

 private:
  struct Left {
    const std::string* experiment;
    std::string key;
    int samples;
  };
  struct Group {
    std::string reason;  // of the first
    std::vector<Left> cells;
  };
  std::map<std::string, Group> groups_;  // by kind
  std::set<std::string> experiments_;    // whose names Left points to
};

}  // namespace sftbench
