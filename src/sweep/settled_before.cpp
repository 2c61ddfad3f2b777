#include "sweep/settled_before.h"

namespace sftbench {

SettledBefore::SettledBefore(const CellPlanner& planner, const SweepOptions& options,
                             StoreView& stored, CellQueue& queue, StoreGuard& guard,
                             SweepState& state, SweepObserver& observer)
    : planner_(planner),
      options_(options),
      stored_(stored),
      queue_(queue),
      guard_(guard),
      state_(state),
      observer_(observer) {}

bool SettledBefore::left_unread(const Cell& cell) {
  if (!options_.worker || cell.attempt > 1 || cell.samples > 1 || cell.read) return false;
  const StoreView::Seen seen = stored_.seen(cell);
  if (seen == StoreView::Seen::kNothing) return false;
  queue_.leave_unread(cell);
  ++state_.unread;
  return true;
}

bool SettledBefore::settled_at_last(Cell& cell) {
  const bool came = stored_.seen(cell) == StoreView::Seen::kCame;
  if (const auto status = came ? stored_.glance(cell) : std::nullopt) {
    take(cell, *status);
    return true;
  }
  if (settled(cell)) return true;
  cell = planner_.name(cell.step);
  cell.read = true;
  return false;
}

bool SettledBefore::settled(Cell& cell) {
  const std::optional<Status> status = stored_.settled(cell);
  for (const std::string& problem : stored_.take_problems()) {
    observer_.on_note(problem + "; it is measured anew, the file is kept aside");
  }
  if (!status) return false;
  take(cell, *status);
  return true;
}

void SettledBefore::take(const Cell& cell, Status status) {
  ++state_.before[status];
  guard_.claim(cell, {status, std::nullopt}, true);
  observer_.on_settled(cell, {status, nullptr, 0});
}

}  // namespace sftbench
