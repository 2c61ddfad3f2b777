// What a rank did, step by step, by its own clock, and what it moved and kept: for RankReport.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_batches.h"
#include "engine/training_run.h"
#include "sftbench/measure/events.h"

namespace sftbench {

class RankAccount {
 public:
  // From here on operations count: those of loading are over.
  explicit RankAccount(TrainingRun& run);

  // What `work` moves, waits for and chooses between two steps is no part of them.
  void leave_out(TrainingRun& run, const std::function<void()>& work);

  // Ends the step's time, and completes its event.
  void end_step(TrainingRun& run, const StepBatches& batches, StepEvent& event);

  RankReport report(const TrainingRun& run, const RankGroup& group) const;

  // Collective: of all ranks' positions. After report(), in which it does not count.
  ExpertLoad expert_load(const TrainingRun& run) const;

 private:
  using Counters = std::vector<std::pair<std::string, CommunicationCounters>>;

  Counters at_begin_;
  std::vector<RankStep> steps_;
  std::vector<int64_t> expert_choices_;  // [steps, layers, experts]
};

// Collective: rank 0 writes the timelines of all ranks to `path`. InputError when it cannot.
void write_trace(const Timeline& own, RankGroup& group, const std::string& path);

// Collective: every rank's report, in rank order.
std::vector<RankReport> gather_reports(const RankReport& own, RankGroup& group);

}  // namespace sftbench
