#include "cli/track_options.h"

#include <spdlog/spdlog.h>

#include "sftbench/base/error.h"

namespace sftbench {

void add_track_option(CLI::App& command, TrackOptions& options) {
  command
      .add_option("--track", options.given,
                  "write what a run does as it trains: tensorboard=DIR, "
                  "mlflow=http://HOST:PORT, aim-info=FILE (ado's), jsonl=FILE; may be repeated")
      ->type_name("KIND=TARGET")
      ->allow_extra_args(false);
}

std::vector<TrackerSpec> chosen_trackers(const TrackOptions& options,
                                         const ActuatorSettings& settings, const ArgumentFile& file,
                                         bool several) {
  std::vector<GivenTracker> given;
  for (const std::string& text : options.given) given.push_back({text, "--track"});
  for (const std::string& text : settings.trackers) given.push_back({text, "parameters.trackers"});
  for (const std::string& text : file.trackers) given.push_back({text, "report_to"});
  return parse_trackers(given, several);
}

TrackedMeasurement::TrackedMeasurement(const std::vector<TrackerSpec>& specs,
                                       const TrainingJob& job, int sample,
                                       const std::string& command) {
  if (specs.empty()) return;
  trackers_ =
      std::make_unique<Trackers>(specs, tracked_run(job, sample, command),
                                 [](const std::string& problem) { spdlog::warn("{}", problem); });
}

void TrackedMeasurement::add_to(MeasureOptions& options) {
  if (!trackers_) return;
  options.observers.push_back(trackers_.get());
  options.sampled = [this](const SystemReading& reading) { trackers_->on_sample(reading); };
}

void TrackedMeasurement::finish(Measurement& measurement) {
  if (!trackers_) return;
  for (const std::string& problem : trackers_->finish(measurement)) {
    if (measurement.status == Status::kValid) measurement.extra["warnings"].push_back(problem);
  }
}

std::vector<std::string> TrackerTroubles::fresh(const Measurement& measurement) {
  std::vector<std::string> troubles;
  const auto warnings = measurement.extra.find("warnings");
  if (warnings == measurement.extra.end()) return troubles;
  for (const Json& warning : *warnings) {
    const std::string text = warning.is_string() ? warning.get<std::string>() : std::string();
    if (text.rfind("tracker ", 0) != 0) continue;
    if (told_.insert(text.substr(0, text.find(": "))).second) troubles.push_back(text);
  }
  return troubles;
}

}  // namespace sftbench
