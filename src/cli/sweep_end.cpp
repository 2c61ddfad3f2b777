#include "cli/sweep_end.h"

#include <spdlog/spdlog.h>

#include "cli/progress.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/interrupt.h"

namespace sftbench {
namespace {

constexpr const char* kGoesOn = "the same command goes on from there";

std::string cells_text(int64_t cells) {
  return std::to_string(cells) + (cells == 1 ? " cell" : " cells");
}

bool cells_remain(SweepEnd end, const Sweep& sweep, const SweepOptions& options) {
  return end == SweepEnd::kDeadline || !sweep.left().empty() ||
         (options.worker && end == SweepEnd::kLimit);
}

}  // namespace

void say_how_it_ended(SweepEnd end, const Sweep& sweep, const SweepOptions& options,
                      const std::string& results) {
  const SweepState& state = sweep.state();
  const std::string settled = std::to_string(state.settled()) + " of " +
                              std::to_string(state.cells_at_most) + " cells are settled in " +
                              results;
  for (const CellsLeft& left : sweep.left()) {
    spdlog::warn("{} left to others: {}", cells_text(left.cells), left.reason);
  }
  switch (end) {
    case SweepEnd::kComplete:
      spdlog::info("{}, in {}", settled, duration_text(state.elapsed_s));
      break;
    case SweepEnd::kLimit:
      spdlog::info("{}; the limit of {} is reached", settled, options.limit);
      break;
    case SweepEnd::kDeadline:
      spdlog::info("{}; the time is over; {}", settled, kGoesOn);
      break;
    case SweepEnd::kInterrupted:
      spdlog::error("interrupted{}; {}; {}", sweep.message().empty() ? "" : "; " + sweep.message(),
                    settled, kGoesOn);
      break;
    case SweepEnd::kTripped:
    case SweepEnd::kStoreFailed:
      spdlog::error("stopped: {}; {}; {}", sweep.message(), settled, kGoesOn);
      break;
  }
}

int sweep_exit_code(SweepEnd end, const Sweep& sweep, const SweepOptions& options) {
  if (end == SweepEnd::kInterrupted) return kInterruptedExitCode;
  if (end == SweepEnd::kTripped || end == SweepEnd::kStoreFailed) return kFailedExitCode;
  if (cells_remain(end, sweep, options)) return kRemainExitCode;
  return sweep.state().settled(Status::kFailed) > 0 ? kFailedExitCode : 0;
}

}  // namespace sftbench
