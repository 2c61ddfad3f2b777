#include "cli/sweep_end.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "cli/progress.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/results/best.h"
#include "sftbench/results/store.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr const char* kGoesOn = "the same command goes on from there";

std::string cells_text(int64_t cells) {
  return counted(cells, "cell");
}

bool cells_remain(SweepEnd end, const Sweep& sweep, const SweepOptions& options) {
  return end == SweepEnd::kDeadline || !sweep.left().empty() ||
         (options.worker && end == SweepEnd::kLimit);
}

constexpr size_t kMostContests = 4;

constexpr int kDigits = 3, kMostDigits = 6;

std::string shortly(double value, int digits) {
  if (value == 0) return "0";
  const double scale = std::pow(10, digits - 1 - std::floor(std::log10(std::abs(value))));
  return cell_text(std::round(value * scale) / scale);
}

std::string value_text(const Contender& contender, const std::string& currency, int digits) {
  return contender.cost ? shortly(*contender.cost, digits) + " " + currency
                        : shortly(contender.rate, digits) + " dataset tokens/s per device";
}

// Significant digits: as many as show a difference that is called one.
int digits_of(const Contest& contest) {
  int digits = kDigits;
  if (!contest.separable()) return digits;
  const auto alike = [&contest](int of) {
    return value_text(contest.best, {}, of) == value_text(*contest.runner_up, {}, of) ||
           shortly(*contest.low, of) == "1";
  };
  while (digits < kMostDigits && alike(digits)) ++digits;
  return digits;
}

std::string times_text(const Contender& contender) {
  const size_t times = contender.repeats.samples.size();
  return "measured " + (times == 1 ? std::string("once") : std::to_string(times) + " times");
}

std::string runner_up_text(const Contest& contest, const std::string& currency, int digits) {
  if (!contest.runner_up) return "nothing else ran to compare it with";
  const Contender& second = *contest.runner_up;
  const std::string text = "before " + second.configuration + " with " +
                           value_text(second, currency, digits) + " (" + times_text(second) + "): ";
  if (!contest.low)
    return text + "not known whether that is more than noise, which --repeats 3 tells";
  const std::string interval = "ratio " + shortly(contest.ratio, digits) +
                               ", 95 %: " + shortly(*contest.low, digits) + " to " +
                               shortly(*contest.high, digits);
  return text + (contest.separable() ? "separable (" + interval + ")"
                                     : "not separable (" + interval + "), more --repeats may tell");
}

}  // namespace

void say_what_is_best(const std::string& results, const std::set<std::string>& keys,
                      const DevicePrices& prices) {
  const StoreScan scan = ResultStore(results).scan();
  bool simulated = false;
  const std::vector<Contest> contests =
      best_configurations(scan, prices, [&](const StoredResult& result) {
        const bool taken = keys.count(std::string(result.key)) != 0;
        simulated = simulated || (taken && result.simulated());
        return taken;
      });
  for (size_t i = 0; i < std::min(contests.size(), kMostContests); ++i) {
    const Contest& contest = contests[i];
    const int digits = digits_of(contest);
    const bool made_up = contest.best.repeats.first().simulated();
    spdlog::info("{}best of {} for {}: {} with {}{} ({}), {}", made_up ? "simulated: " : "",
                 contest.configurations, contest.title, contest.best.configuration,
                 value_text(contest.best, prices.currency(), digits),
                 contest.best.cost ? " per million dataset tokens" : "", times_text(contest.best),
                 runner_up_text(contest, prices.currency(), digits));
  }
  if (contests.size() > kMostContests)
    spdlog::info("and {} more, which the report has", contests.size() - kMostContests);
  if (contests.empty()) return;
  spdlog::info("the report: sftbench report {}{} --format html -o report.html",
               shell_quoted(results), simulated ? " --include-simulated" : "");
}

void say_how_it_ended(SweepEnd end, const Sweep& sweep, const SweepOptions& options,
                      const std::string& results) {
  const SweepState& state = sweep.state();
  const std::string settled = std::to_string(state.settled()) + " of " +
                              counted(state.cells_at_most, "cell is", "cells are") +
                              " settled in " + results;
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
  const bool failed = sweep.state().settled(Status::kFailed) > 0 || sweep.state().unsaved > 0;
  return failed ? kFailedExitCode : 0;
}

}  // namespace sftbench
