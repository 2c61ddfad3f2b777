#include "sweep/left_cells.h"

#include <algorithm>
#include <cmath>

#include "sftbench/base/clock.h"

namespace sftbench {

std::optional<ReasonToLeave> reason_to_leave(const Cell& cell, const CellPlan& plan,
                                             const SweepOptions& options, const CellTimes& times) {
  if (options.worker && plan.elsewhere) return ReasonToLeave{*plan.elsewhere, *plan.elsewhere};
  if (plan.settled) return std::nullopt;
  if (options.worker) {
    if (const auto problem = options.preflight(plan.job, {})) {
      return ReasonToLeave{"memory", *problem};
    }
  }
  const std::optional<double> takes_s = times.longest(cell);
  if (!options.until_s || !takes_s || *takes_s <= *options.until_s - steady_seconds()) {
    return std::nullopt;
  }
  const std::string text = "such a cell took " + std::to_string(std::lround(*takes_s)) +
                           " s, and the deadline is nearer";
  return ReasonToLeave{"time", text, true};
}

void LeftCells::add(const Cell& cell, const ReasonToLeave& reason) {
  const std::string& experiment = *experiments_.insert(cell.request.experiment).first;
  Group& group = groups_[reason.kind];
  if (group.cells.empty()) group.reason = reason.text;
  group.cells.push_back({&experiment, cell.key, cell.samples});
}

std::vector<CellsLeft> LeftCells::remaining(StoreView& store) {
  std::vector<CellsLeft> all;
  for (auto& [kind, group] : groups_) {
    const auto settled = [&store](const Left& left) {
      Cell cell;
      cell.request.experiment = *left.experiment;
      cell.key = left.key;
      cell.samples = left.samples;
      return store.settled(cell).has_value();
    };
    group.cells.erase(std::remove_if(group.cells.begin(), group.cells.end(), settled),
                      group.cells.end());
    if (group.cells.empty()) continue;
    all.push_back({group.reason, static_cast<int64_t>(group.cells.size())});
  }
  return all;
}

}  // namespace sftbench
