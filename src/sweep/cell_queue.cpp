#include "sweep/cell_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace sftbench {
namespace {

// A claim cannot be waited for together with children.
constexpr double kFirstLookSeconds = 0.5;

template <typename Item>
Item take_front(std::deque<Item>& items) {
  Item item = std::move(items.front());
  items.pop_front();
  return item;
}

}  // namespace

std::optional<CellQueue::Next> CellQueue::next(double now_s, int64_t under_way) {
  if (!walk_ended_ && !walk_.waits(under_way)) {
    if (const std::optional<WalkStep> step = walk_.next()) return Next{planner_.name(*step)};
    walk_ended_ = true;
  }
  if (!unread_.empty()) {
    Unread unread = take_front(unread_);
    Next next{{}, true};
    next.cell.step = unread.step;
    next.cell.request.experiment = *unread.experiment;
    next.cell.key = std::move(unread.key);
    return next;
  }
  if (!retries_.empty()) return Next{take_front(retries_)};
  if (!busy_.empty() && busy_.front().look_again_s <= now_s) return Next{take_front(busy_).cell};
  return std::nullopt;
}

double CellQueue::next_at_s(double now_s, int64_t under_way) const {
  const bool walks_on = !walk_ended_ && !walk_.waits(under_way);
  if (walks_on || !unread_.empty() || !retries_.empty()) return now_s;
  if (!busy_.empty()) return busy_.front().look_again_s;
  return std::numeric_limits<double>::infinity();
}

void CellQueue::leave_unread(const Cell& cell) {
  const std::string& experiment = *experiments_.insert(cell.request.experiment).first;
  unread_.push_back({&experiment, cell.key, cell.step});
}

void CellQueue::keep_only_retries() {
  walk_ended_ = true;
  unread_.clear();
  busy_.erase(std::remove_if(busy_.begin(), busy_.end(),
                             [](const Busy& busy) { return busy.cell.attempt == 1; }),
              busy_.end());
}

void CellQueue::put_off(Cell cell, double now_s, double most_s) {
  const double wait_s = kFirstLookSeconds * std::pow(2, std::min(cell.looks, 20));
  ++cell.looks;
  const double look_again_s = now_s + std::min(wait_s, most_s);
  const auto later = std::find_if(busy_.begin(), busy_.end(), [&](const Busy& busy) {
    return busy.look_again_s > look_again_s;
  });
  busy_.insert(later, {std::move(cell), look_again_s});
}

}  // namespace sftbench
