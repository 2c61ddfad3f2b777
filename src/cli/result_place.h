// Where `run` keeps its measurement: the files of one key in a folder of results, claimed
// against every other process for as long as this object lives.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/launch/interrupt.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/measurement.h"
#include "sftbench/results/standing_folder.h"
#include "sftbench/results/store.h"

namespace sftbench {

class ResultPlace {
 public:
  // Tries the folder out and claims the key. InputError when nothing can be written there; KeyBusy
  // when another process measures the key. `watcher` removes at an interrupt what this makes.
  ResultPlace(const std::string& output, const TrainingJob& job, InterruptWatcher& watcher);
  ~ResultPlace();
  ResultPlace(const ResultPlace&) = delete;
  ResultPlace& operator=(const ResultPlace&) = delete;

  std::filesystem::path growing_log() const { return store_.growing_log_path(experiment_, key_); }
  std::filesystem::path growing_series() const {
    return store_.growing_series_path(experiment_, key_);
  }
  std::filesystem::path log() const { return store_.log_path(experiment_, key_); }
  // For a child that measures here.
  std::vector<int> inherited_fds() const { return claim_->inherited_fds(); }
  int sample() const { return store_.next_sample(experiment_, key_); }  // that comes next

  struct Kept {
    std::string where;                // the result's path, and the result beside it that stays
    bool gave_way = false;            // to a better result of the same key
    std::filesystem::path path;       // of the result
    std::optional<std::string> lost;  // the folder of results was taken away meanwhile: how

    void tell() const;  // to the log
  };
  // Writes the result. InputError when it cannot be written, or must not: KeyBusy when another
  // process has taken the key over, because this one was stopped for longer than its lease.
  Kept write(const Measurement& measurement) const;

  // Before an end of the process that destroys nothing.
  void give_back() { claim_.reset(); }

 private:
  ResultStore store_;
  std::string experiment_, key_;
  InterruptWatcher& watcher_;
  std::unique_ptr<Claims> claims_;
  std::shared_ptr<Claim> claim_;  // goes before what it is one of
  std::optional<StandingFolder> folder_;
};

}  // namespace sftbench
