// --track KIND=TARGET of the commands that measure, and what else chooses trackers: `trackers` of
// an actuator configuration, report_to of an arguments file.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sftbench/launch/measure_job.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/plan/tracker_spec.h"
#include "sftbench/trackers/trackers.h"
#include "sftbench/translate/argument_file.h"

namespace sftbench {

struct TrackOptions {
  std::vector<std::string> given;  // texts of --track
};

void add_track_option(CLI::App& command, TrackOptions& options);

// InputError with all that is wrong with them. `several`: each of many measurements is tracked.
std::vector<TrackerSpec> chosen_trackers(const TrackOptions& options,
                                         const ActuatorSettings& settings, const ArgumentFile& file,
                                         bool several);

// The trackers of one measurement, if it has any.
class TrackedMeasurement {
 public:
  TrackedMeasurement(const std::vector<TrackerSpec>& specs, const TrainingJob& job, int sample,
                     const std::string& command);

  // Has the trackers observe the run.
  void add_to(MeasureOptions& options);

  // Tells the trackers how it ended. What they have not got is a warning of a valid measurement.
  void finish(Measurement& measurement);

 private:
  std::unique_ptr<Trackers> trackers_;  // null: none
};

// What trackers of a sweep's measurements could not do, each said once.
class TrackerTroubles {
 public:
  // Warnings of this measurement about trackers that no earlier one had.
  std::vector<std::string> fresh(const Measurement& measurement);

 private:
  std::set<std::string> told_;
};

}  // namespace sftbench
