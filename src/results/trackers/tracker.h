// One place that a run is written to. Everything here runs on the tracker's own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "sftbench/measure/events.h"
#include "sftbench/results/measurement.h"
#include "sftbench/trackers/trackers.h"
#include "trackers/points.h"

namespace sftbench {

// This tracker takes nothing more.
class TrackerFailure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct TrackerEnding {
  std::shared_ptr<const Measurement> measurement;  // null: the run was interrupted
  double wall_s = 0;
  double deadline_s = 0;  // steady_seconds(); what is not written by then is lost
};

class Tracker {
 public:
  virtual ~Tracker() = default;

  // First. `begin` is empty where training never began. TrackerFailure, as of all of these.
  virtual void begin(const TrainBegin& begin, double wall_s) = 0;
  virtual void add(const std::vector<Point>& points) = 0;
  // Once a period: writes what has come together.
  virtual void flush() {}
  virtual void end(const TrackerEnding& ending) = 0;

  // Of the points that were added, those that have reached their place.
  virtual int64_t written() const = 0;
  // What stands in its way just now, though it may pass; empty: nothing.
  virtual std::string trouble() const { return {}; }
};

// `cancelled` ends what waits for a server; it outlives the tracker.
std::unique_ptr<Tracker> make_tracker(const TrackerSpec& spec, const TrackedRun& run,
                                      const TrackerLimits& limits,
                                      const std::atomic<bool>& cancelled);

// The file of a tracker, with the name of the measurement put in.
std::string file_of_run(const std::string& target, const TrackedRun& run);

}  // namespace sftbench
