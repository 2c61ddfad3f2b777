// `sftbench run` as one of several ranks that an outside launcher started: srun, mpirun, torchrun,
// Kubernetes. All of them come to the same job by themselves and train it together; rank 0 alone
// measures, writes and prints, and all end with its exit status.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/backend_options.h"
#include "sftbench/cluster/launched_ranks.h"
#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/launch/interrupt.h"
#include "sftbench/launch/measure_job.h"

namespace sftbench {

// InputError when this command was started several times on this node: it uses all of it.
void refuse_several_tasks(const std::string& command);

// InputError when a job cannot be trained by the ranks that were started.
void require_fit(const TrainingJob& job, const RankPlace& place);

// The end of a rank that was started in a way that it cannot use, and its exit status: tells the
// other ranks, and rank 0 the user. They end as well.
int decline(const RankPlace& place, const InputError& error);

// In ranks other than 0, before they end without having met the others: a launcher that ends all
// ranks when one has ended leaves rank 0 the time to say why.
void let_rank0_speak();

// Rank 0 gives it its final name, with its own. On a node that does not share the folder of results
// the rank does so itself.
struct FollowerLog {
  std::filesystem::path growing, whole;
};

class LaunchedRun {
 public:
  // Meets the other ranks. InputError when that is known to fail; RunError when it does.
  LaunchedRun(const RankPlace& place, const TrainingJob& job);

  // Collective, as LaunchedRanks::agree.
  std::optional<ErrorClass> agree(const TrainingJob& job, const std::optional<ErrorClass>& ending) {
    return ranks_.agree(job, ending);
  }

  // What has ended the ranks, as far as it is known, from any thread.
  std::optional<ErrorClass> failure() const;

  // Collective: prepares dataset, network and engine on every rank. Throws RunError on all of them.
  // Returns the backend that trains with `own` in the group of the ranks.
  std::unique_ptr<Backend> prepare(Backend& own, const TrainingJob& job, bool generate_dataset,
                                   const std::function<void(const std::string&)>& announce);

  // Rank 0, after training: what was warned of.
  void put_warnings(Measurement& measurement) const;

  // Another rank's whole run, and its exit status. Its log stands beside rank 0's.
  int follow(InterruptWatcher& watcher, const TrainingJob& job,
             const std::optional<ErrorClass>& ending, bool generate_dataset,
             const SimulatedRun& simulated, const FollowerLog& log);

  // The last: all end with rank 0's exit status, but for those that know that they have failed.
  int leave(int exit_status) { return ranks_.leave(exit_status); }

 private:
  bool between_nodes(const TrainingJob& job) const;
  void warn(const std::string& warning);

  Environment environment_;
  std::vector<std::string> warnings_;  // also told
  LaunchedRanks ranks_;
};

}  // namespace sftbench
