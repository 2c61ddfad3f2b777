#include "sweep/cell_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sftbench {
namespace {

// A lock cannot be waited for together with children; a try costs microseconds.
constexpr double kLookAgainSeconds = 0.5;

template <typename Item>
Item take_front(std::deque<Item>& items) {
  Item item = std::move(items.front());
  items.pop_front();
  return item;
}

}  // namespace

std::optional<Cell> CellQueue::next(double now_s) {
  if (!walk_ended_) {
    if (const std::optional<WalkStep> step = walk_.next()) return planner_.name(*step);
    walk_ended_ = true;
  }
  if (!retries_.empty()) return take_front(retries_);
  if (!busy_.empty() && busy_.front().look_again_s <= now_s) return take_front(busy_).cell;
  return std::nullopt;
}

double CellQueue::next_at_s(double now_s) const {
  if (!walk_ended_ || !retries_.empty()) return now_s;
  if (!busy_.empty()) return busy_.front().look_again_s;
  return std::numeric_limits<double>::infinity();
}

void CellQueue::keep_only_retries() {
  walk_ended_ = true;
  busy_.erase(std::remove_if(busy_.begin(), busy_.end(),
                             [](const Busy& busy) { return busy.cell.attempt == 1; }),
              busy_.end());
}

void CellQueue::put_off(Cell cell, double now_s) {
  busy_.push_back({std::move(cell), now_s + kLookAgainSeconds});
}

}  // namespace sftbench
