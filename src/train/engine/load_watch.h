// Tells observers how far a rank has come before it trains, while threads load weights and
// tokenize: often enough for people, from a thread of its own, and only what is new.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "sftbench/base/work_count.h"
#include "sftbench/measure/events.h"

namespace sftbench {

class LoadWatch {
 public:
  // `observers` outlive it. Without any it has no thread.
  explicit LoadWatch(std::vector<TrainObserver*> observers = {});

  // What the rank does from now on.
  void phase(const std::string& name);

  WorkCount& weights() { return weights_; }  // bytes
  WorkCount& entries() { return entries_; }

 private:
  LoadEvent now() const;
  void tell(const std::stop_token& stop);

  const std::vector<TrainObserver*> observers_;
  WorkCount weights_, entries_;
  mutable std::mutex mutex_;  // guards phase_
  std::string phase_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: it ends before what it uses goes away
};

}  // namespace sftbench
