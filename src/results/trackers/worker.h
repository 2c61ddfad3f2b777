// The thread of one tracker and the queue in front of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "sftbench/trackers/trackers.h"
#include "trackers/tracker.h"

namespace sftbench {

struct TrackedEvent {
  std::variant<TrainBegin, StepEvent, EvaluationEvent, SystemReading> what;
  double wall_s = 0;
};

class Trackers::Worker {
 public:
  Worker(const TrackerSpec& spec, const TrackedRun& run, const TrackerLimits& limits,
         std::function<void(const std::string&)> report);
  // Waits for no thread that hangs in the system: it goes on alone.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Never waits. An event that finds the queue full is lost.
  void push(TrackedEvent event);

  void ask_to_end(const TrackerEnding& ending);
  // Until the ending's deadline, and a moment longer. What was lost and why; empty: nothing.
  std::string wait_for_end();

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace sftbench
