// The ranks of one measurement when an outside launcher started them, each a `sftbench run` with
// the same arguments: what they say to each other before and after training. Each trains in its own
// process; rank 0 alone measures, writes and prints.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/engine/engine.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// What a rank has seen while it trained, told to rank 0 at the end.
struct RankRecord {
  int node = 0;
  std::vector<SystemReading> samples;  // by the rank's own clock
};

class LaunchedRanks {
 public:
  explicit LaunchedRanks(std::unique_ptr<RankGroup> group) : group_(std::move(group)) {}

  RankGroup& group() { return *group_; }
  const RankGroup& group() const { return *group_; }
  bool leads() const { return group_->rank() == 0; }

  // Collective: what the ranks have made of their arguments. Nothing when all have resolved the
  // same job; the ending that all of them foresee (RULE_1, WEIGHTS, ...) when they do. InputError
  // on every rank, naming those that have another job; RunError when only some foresee an ending.
  // Where things lie may differ between nodes.
  std::optional<ErrorClass> agree(const TrainingJob& job, const std::optional<ErrorClass>& ending);

  // Collective: what ends `work` on one rank ends it on all of them, with one RunError.
  // `interrupted`: was this process asked to end?
  void together(
      const TrainingJob& job, const std::function<void()>& work,
      const std::function<bool()>& interrupted = [] { return false; });

  // What has ended the group, as far as it is known, from any thread. That ranks were asked to end
  // is no failure.
  std::optional<RankFailure> failure() const;

  // An engine for measure_job: trains as this rank of the group. `engine` outlives it.
  std::unique_ptr<Engine> engine_in_group(Engine& engine);

  // After training: every other rank tells, rank 0 hears them, in rank order, itself left out.
  void tell(const RankRecord& record);
  const std::vector<RankRecord>& hear();
  const std::vector<RankRecord>& heard() const { return heard_; }

  // Collective, the last: all end with rank 0's exit status. Of a group that has failed each has
  // its own, and rank 0 ends first, if that does not take long.
  int leave(int exit_status);

 private:
  std::unique_ptr<RankGroup> group_;
  std::vector<RankRecord> heard_;
};

// What must be equal on all ranks, as a digest.
std::string digest_of(const TrainingJob& job);

}  // namespace sftbench
