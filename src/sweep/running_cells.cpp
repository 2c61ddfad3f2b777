#include "sweep/running_cells.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sweep/child_spec.h"

namespace sftbench {

RunningCells::RunningCells(const ResultStore& store, const SweepOptions& options)
    : store_(store), options_(options) {}

bool RunningCells::has(const Cell& cell) const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [&cell](const Running& running) { return running.cell.key == cell.key; });
}

RunSeries RunningCells::child_of(const Cell& cell, const CellPlan& plan, const Claim& claim,
                                 const Share& share) const {
  return RunSeries(child_spec(cell, plan, claim, share, store_, options_));
}

void RunningCells::start(Cell cell, CellPlan plan, std::shared_ptr<Claim> claim, Share share) {
  RunSeries child = child_of(cell, plan, *claim, share);
  cells_.push_back(
      {std::move(cell), std::move(plan), std::move(claim), std::move(share), std::move(child)});
  const auto others = static_cast<int64_t>(cells_.size()) - 1;
  for (Running& running : cells_)
    running.concurrent_cells = std::max(running.concurrent_cells, others);
}

void RunningCells::restart(Running& running) {
  running.child = child_of(running.cell, running.plan, *running.claim, running.share);
  running.concurrent_cells = static_cast<int64_t>(cells_.size()) - 1;
}

void RunningCells::collect(const std::function<bool(Running&)>& goes_on) {
  for (auto running = cells_.begin(); running != cells_.end();) {
    const bool ended = running->child.advance() && !goes_on(*running);
    running = ended ? cells_.erase(running) : std::next(running);
  }
}

void RunningCells::give_up_lost_claims() {
  for (Running& running : cells_) {
    if (running.given_up || running.claim->stands()) continue;
    running.given_up = true;
    running.child.end(ReasonCode::kKilled, "another process has taken its claim over");
  }
}

void RunningCells::end_all(const std::string& why) {
  for (Running& running : cells_) running.child.end(ReasonCode::kKilled, why);
}

void RunningCells::add_poll_fds(std::vector<pollfd>& fds) const {
  for (const Running& running : cells_) running.child.add_poll_fds(fds);
}

double RunningCells::deadline_s() const {
  double first_s = std::numeric_limits<double>::infinity();
  for (const Running& running : cells_) first_s = std::min(first_s, running.child.deadline_s());
  return first_s;
}

double RunningCells::show(std::vector<RunningCell>& shown) const {
  shown.clear();
  double done = 0;
  for (const Running& running : cells_) {
    const SeriesProgress& progress = running.child.progress();
    shown.push_back({&running.cell, &progress.heartbeat, running.child.elapsed_s(), progress.run,
                     progress.runs});
    done += progress.done();
  }
  return done;
}

}  // namespace sftbench
