#include "sftbench/trackers/trackers.h"

#include <chrono>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/plan/resolve.h"
#include "trackers/aim_info.h"
#include "trackers/json_lines.h"
#include "trackers/mlflow.h"
#include "trackers/tensorboard.h"
#include "trackers/worker.h"

namespace sftbench {
namespace {

double wall_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TrackedRun tracked_run(const TrainingJob& job, int sample, const std::string& command) {
  TrackedRun run;
  run.key = measurement_key(job.experiment, job.inputs);
  run.name = sample == 1 ? run.key : run.key + "." + std::to_string(sample);
  run.experiment = job.experiment;
  run.experiment_id = job.experiment_id;
  run.entity_id = job.entity_id;
  run.inputs = job.inputs;
  run.command = command;
  run.ranks = job.device.ranks;
  run.gpus = job.device.kind == "cuda" ? job.device.ranks : 0;
  return run;
}

std::string file_of_run(const std::string& target, const TrackedRun& run) {
  std::string file = target;
  const std::string placeholder = kKeyPlaceholder;
  for (size_t at = file.find(placeholder); at != std::string::npos;
       at = file.find(placeholder, at + run.name.size())) {
    file.replace(at, placeholder.size(), run.name);
  }
  return file;
}

std::unique_ptr<Tracker> make_tracker(const TrackerSpec& spec, const TrackedRun& run,
                                      const TrackerLimits& limits,
                                      const std::atomic<bool>& cancelled) {
  switch (spec.kind) {
    case TrackerKind::kTensorboard:
      return std::make_unique<TensorboardTracker>(spec.target, run);
    case TrackerKind::kMlflow:
      return std::make_unique<MlflowTracker>(spec.target, run, limits, cancelled);
    case TrackerKind::kAimInfo:
      return std::make_unique<AimInfoTracker>(file_of_run(spec.target, run), run);
    case TrackerKind::kJsonl:
      return std::make_unique<JsonLinesTracker>(file_of_run(spec.target, run));
  }
  return nullptr;
}

Trackers::Trackers(const std::vector<TrackerSpec>& specs, const TrackedRun& run,
                   std::function<void(const std::string&)> report, const TrackerLimits& limits)
    : limits_(limits) {
  for (const TrackerSpec& spec : specs) {
    workers_.push_back(std::make_unique<Worker>(spec, run, limits, report));
  }
}

Trackers::~Trackers() {
  if (!finished_) end_all(nullptr, limits_.interrupted_end_s);
}

// The first event with a time anchors its clock, which may be a simulated one.
double Trackers::wall_s(double steady_s) {
  const std::lock_guard lock(clock_mutex_);
  if (!clock_offset_s_) clock_offset_s_ = wall_now_s() - steady_s;
  return steady_s + *clock_offset_s_;
}

void Trackers::on_train_begin(const TrainBegin& begin) {
  for (const auto& worker : workers_) worker->push({begin, wall_now_s()});
}

void Trackers::on_step_end(const StepEvent& event, TrainControl&) {
  const double time_s = wall_s(event.end_s);
  for (const auto& worker : workers_) worker->push({event, time_s});
}

void Trackers::on_evaluation(const EvaluationEvent& event) {
  for (const auto& worker : workers_) worker->push({event, wall_now_s()});
}

void Trackers::on_sample(const SystemReading& reading) {
  const double time_s = wall_s(reading.time_s);
  for (const auto& worker : workers_) worker->push({reading, time_s});
}

std::vector<std::string> Trackers::finish(const Measurement& measurement) {
  return end_all(std::make_shared<const Measurement>(measurement), limits_.end_s);
}

std::vector<std::string> Trackers::end_all(std::shared_ptr<const Measurement> measurement,
                                           double wait_s) {
  finished_ = true;
  const TrackerEnding ending = {std::move(measurement), wall_now_s(), steady_seconds() + wait_s};
  for (const auto& worker : workers_) worker->ask_to_end(ending);
  std::vector<std::string> problems;
  for (const auto& worker : workers_) {
    if (std::string problem = worker->wait_for_end(); !problem.empty())
      problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace sftbench
