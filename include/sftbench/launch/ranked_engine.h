// Several ranks on this machine as one Engine: starts them as processes of this executable
// (`sftbench rank`), which load the engine library, meet over loopback and train; what rank 0 tells
// of it is told on to this process's observers, who decide between two steps as if they trained
// here. This process loads no libtorch.
//
// Ranks are pinned to cores of their own where there are enough, those with a GPU to cores near it
// where it is known which they are. None outlives this
// object or this process, whatever becomes of either: each is killed with its parent.
//
// When one of them fails, the others have a few seconds to say what they saw; then they are killed.
// The error names the rank that was the cause (precedence() of rank_group.h), in its own words, or
// by how its process ended (child_end.h) when it left none.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/engine/engine.h"

namespace sftbench {

struct RankedSpec {
  std::filesystem::path log;       // of the measurement; ranks have theirs beside it: log_of_rank()
  std::string final_log;           // its path afterwards
  std::vector<std::string> gpus;   // UUIDs, by rank; empty: ranks are on the CPU
  int64_t host_memory_bytes = 0;   // of private memory, of all ranks together; 0: no limit
  std::vector<int> inherited_fds;  // stay open while a rank lives
  // Optimization steps that a rank other than 0 has done.
  std::function<void(int rank, int64_t step)> on_rank_step = [](int, int64_t) {};
  // Where each rank is, by rank, when that has changed, at most once a second.
  std::function<void(const std::vector<std::string>&)> on_whereabouts =
      [](const std::vector<std::string>&) {};

  std::vector<std::pair<std::string, std::string>> environment;  // over this process's own
  std::filesystem::path executable = "/proc/self/exe";           // tests name the built one
};

class RankedEngine : public Engine {
 public:
  // Starts job.device.ranks processes. std::system_error or InputError when that is impossible.
  RankedEngine(const TrainingJob& job, RankedSpec spec);
  ~RankedEngine() override;
  RankedEngine(const RankedEngine&) = delete;
  RankedEngine& operator=(const RankedEngine&) = delete;

  // REQUIRES: the job of the constructor; a world of one, which is this process; called once.
  void train_job(const TrainingJob& job, RankGroup& group,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override;

  // Rank 0's, for which it waits; {} when it ended before it could tell.
  Json environment() const override;

  // For tests that make ranks fail.
  std::vector<int64_t> process_ids() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sftbench
