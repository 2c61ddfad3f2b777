// Writes what a run does to trackers while it trains: TensorBoard, MLflow, files. An observer that
// never holds the run up: events go into a bounded queue for each tracker, and a thread of its own
// takes them out once a second. A tracker that is down, slow or full loses events, and says how
// many at the end.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/events.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/plan/tracker_spec.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

// The measurement that is tracked, by name.
struct TrackedRun {
  std::string key;
  std::string name;  // the key; of a repeat with its sample: "<key>.2"
  std::string experiment;
  std::string experiment_id;
  std::string entity_id;
  Json inputs = Json::object();
  std::string command;
  int64_t ranks = 1;
  int64_t gpus = 0;  // over all nodes
};

TrackedRun tracked_run(const TrainingJob& job, int sample, const std::string& command);

struct TrackerLimits {
  size_t queue_events = 16384;  // of each tracker that wait for its thread
  double period_s = 1;          // between two looks into the queue
  double request_s = 10;        // of a request to a server
  double first_wait_s = 1;      // after a request that failed; doubles, up to a minute
  double end_s = 10;            // from the end of the run on, to write what is left
  double interrupted_end_s = 2;
};

class Trackers : public TrainObserver {
 public:
  // Starts the threads. `report` is called from them, once for each tracker that has a problem.
  Trackers(const std::vector<TrackerSpec>& specs, const TrackedRun& run,
           std::function<void(const std::string&)> report, const TrackerLimits& limits = {});
  // A run that finish() was not called for was interrupted, and its trackers say so.
  ~Trackers() override;
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;

  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;
  // From the sampler's thread.
  void on_sample(const SystemReading& reading);

  // Writes how the measurement ended, and waits for the trackers, up to the limits. Returns a
  // sentence for each tracker that has not got everything.
  std::vector<std::string> finish(const Measurement& measurement);

 private:
  class Worker;

  double wall_s(double steady_s);
  std::vector<std::string> end_all(std::shared_ptr<const Measurement> measurement, double wait_s);

  TrackerLimits limits_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool finished_ = false;
  std::mutex clock_mutex_;
  std::optional<double> clock_offset_s_;  // from the events' clock to the wall's
};

}  // namespace sftbench
