#include "sftbench/advise/until_known.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sftbench/advise/uncertainty.h"

namespace sftbench {

UntilKnown::UntilKnown(std::vector<DecisionCell> cells, const ResidualTable& table, int64_t jobs)
    : table_(table), jobs_(std::max<int64_t>(1, jobs)) {
  for (DecisionCell& cell : cells) {
    experiments_ = std::max(experiments_, static_cast<int64_t>(cell.step.experiment) + 1);
    cells_.push_back({std::move(cell)});
  }
}

void UntilKnown::sharpen() {
  if (!stale_) return;
  stale_ = false;
  const Uncertainty uncertainty(table_, residuals_);
  for (Cell& cell : cells_) {
    cell.high = std::numeric_limits<double>::infinity();
    if (cell.asked || cell.decision.predicted <= 0) continue;
    const Interval factors = uncertainty.interval(Figure::kTime, cell.decision.at);
    // Merit is the inverse of time: the shortest time gives the most.
    if (factors.residuals > 0) cell.high = cell.decision.predicted / factors.low;
  }
}

bool UntilKnown::may_win(const Cell& cell) const {
  if (cell.asked || cell.decision.dies > kSurelyDies) return false;
  const auto best = best_.find(cell.decision.contest);
  return best == best_.end() || cell.high > best->second;
}

std::optional<WalkStep> UntilKnown::next() {
  sharpen();
  Cell* most = nullptr;
  for (Cell& cell : cells_) {
    if (!may_win(cell)) continue;
    // One contest after the other: cells of a contest share their model and their tokens.
    if (most != nullptr && most->decision.contest != cell.decision.contest) continue;
    if (most == nullptr || cell.high > most->high) most = &cell;
  }
  if (most == nullptr) return std::nullopt;
  most->asked = true;
  return most->decision.step;
}

int64_t UntilKnown::entities_left_at_most() const {
  const int64_t cells =
      std::count_if(cells_.begin(), cells_.end(), [](const Cell& cell) { return !cell.asked; });
  return (cells + experiments_ - 1) / experiments_;
}

void UntilKnown::tell(const WalkStep& step, std::optional<double> merit, double within) {
  const auto found = std::find_if(cells_.begin(), cells_.end(), [&step](const Cell& cell) {
    return cell.decision.step.entity == step.entity &&
           cell.decision.step.experiment == step.experiment;
  });
  if (found == cells_.end() || !merit || *merit <= 0) return;
  const DecisionCell& decision = found->decision;
  double& best = best_.try_emplace(decision.contest, 0).first->second;
  best = std::max(best, *merit * (1 - within));
  if (decision.predicted > 0) {
    residuals_.push_back(
        {decision.at, Figure::kTime, false, false, std::log(decision.predicted / *merit)});
  }
  stale_ = true;
}

std::vector<LeftOut> UntilKnown::left_out() const {
  std::vector<LeftOut> left;
  for (const Cell& cell : cells_) {
    if (cell.asked) continue;
    const auto best = best_.find(cell.decision.contest);
    const double most = best == best_.end() ? 0 : cell.high / best->second;
    left.push_back({cell.decision.step, most, cell.decision.dies});
  }
  return left;
}

}  // namespace sftbench
