#include "sftbench/launch/run_series.h"

#include <algorithm>
#include <utility>

#include "launch/advance_to_the_end.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

enum class RunEnd { kNoError, kGpuOom, kOtherError };

RunEnd end_of(const Measurement& run) {
  if (!run.reason) return RunEnd::kNoError;
  return run.reason->code == ReasonCode::kOomGpu ? RunEnd::kGpuOom : RunEnd::kOtherError;
}

const char* name_of(RunEnd end) {
  switch (end) {
    case RunEnd::kNoError:
      return "no_error";
    case RunEnd::kGpuOom:
      return "gpu_oom";
    case RunEnd::kOtherError:
      break;
  }
  return "other_error";
}

bool ended_by_watchdog(const Measurement& run) {
  return run.reason &&
         (run.reason->code == ReasonCode::kHang || run.reason->code == ReasonCode::kTimeout);
}

// Another run would find the same.
bool concerns_all_runs(const Measurement& run) {
  if (!run.reason) return false;
  const ReasonCode code = run.reason->code;
  return code == ReasonCode::kData || code == ReasonCode::kWeights ||
         code == ReasonCode::kUnsupported;
}

std::string ending_text(const Measurement& run) {
  std::string text = name_of(end_of(run));
  if (run.reason)
    text += ": " + std::string(to_string(run.reason->code)) + ": " + run.reason->message;
  return text;
}

Json run_json(const Measurement& run, double seconds) {
  Json json = {{"end", name_of(end_of(run))}, {"seconds", seconds}, {"reason", nullptr}};
  json["started_at"] = run.started_at;
  json["reason"] = to_json(run)["reason"];
  for (const char* figure : {"loss", "step_seconds", "memory_bytes"}) {
    if (run.extra.contains(figure)) json[figure] = run.extra[figure];
  }
  return json;
}

// What stands in a log that goes into another one, and is removed.
std::string take_text(const fs::path& part) {
  std::string text;
  try {
    text = read_file(part);
  } catch (const InputError&) {
    // A run that was ended before it began has none.
  }
  std::error_code ignored;
  fs::remove(part, ignored);
  return text;
}

}  // namespace

// "x.growing.log" -> "x.run.growing.log": what a sweep that is killed leaves behind is known by its
// ending.
fs::path log_of_run(const fs::path& log) {
  return log.parent_path() / (log.stem().stem().string() + ".run.growing.log");
}

double SeriesProgress::done() const {
  const double part = heartbeat.total_steps > 0 ? static_cast<double>(heartbeat.step) /
                                                      static_cast<double>(heartbeat.total_steps)
                                                : 0;
  return (static_cast<double>(run - 1) + part) / static_cast<double>(runs);
}

Measurement measurement_of_runs(const std::vector<Measurement>& runs,
                                const std::vector<double>& seconds) {
  check(!runs.empty() && runs.size() == seconds.size(), "each run took its time");
  // A run that ended well tells most of what it ran on: its libraries were loaded.
  const auto whole = std::find_if(runs.rbegin(), runs.rend(), [](const Measurement& run) {
    return run.status == Status::kValid;
  });
  Measurement measurement = whole != runs.rend() ? *whole : runs.back();
  measurement.started_at = runs.front().started_at;
  measurement.finished_at = runs.back().finished_at;

  const auto fraction = [&](auto holds) {
    return static_cast<double>(std::count_if(runs.begin(), runs.end(), holds)) /
           static_cast<double>(runs.size());
  };
  const auto ending = [&](RunEnd end) {
    return fraction([end](const Measurement& run) { return end_of(run) == end; });
  };
  measurement.status = Status::kValid;
  measurement.reason.reset();
  measurement.measured = {{"f_gpu_oom", ending(RunEnd::kGpuOom)},
                          {"f_other_error", ending(RunEnd::kOtherError)},
                          {"f_no_error", ending(RunEnd::kNoError)},
                          {"is_valid", 1}};
  Json described = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) described.push_back(run_json(runs[i], seconds[i]));
  measurement.extra = {{"f_hang", fraction(ended_by_watchdog)}, {"runs", std::move(described)}};
  return measurement;
}

RunSeries::RunSeries(ChildSpec spec) : spec_(std::move(spec)), begin_s_(steady_seconds()) {
  progress_.runs = std::max<int64_t>(1, spec_.job.runs);
  if (several()) open_log();
  child_ = std::make_unique<ChildMeasurement>(spec_of_run());
}

RunSeries::~RunSeries() {
  if (!child_) return;
  child_.reset();  // before its log is removed
  std::error_code ignored;
  if (several()) fs::remove(log_of_run(spec_.log), ignored);
}

void RunSeries::add_poll_fds(std::vector<pollfd>& fds) const {
  if (!result_) child_->add_poll_fds(fds);
}

double RunSeries::deadline_s() const {
  return child_->deadline_s();
}

bool RunSeries::advance() {
  if (result_) return true;
  const bool ended = child_->advance();
  progress_.heartbeat = child_->heartbeat();
  if (!ended) return false;
  if (!several()) {
    finish(child_->result());
  } else {
    take_run();
  }
  return result_.has_value();
}

void RunSeries::end(ReasonCode code, const std::string& message) {
  if (result_) return;
  if (!asked_) asked_ = Reason{code, message, {}, spec_.final_log};
  child_->end(code, message);
}

double RunSeries::elapsed_s() const {
  return (result_ ? end_s_ : steady_seconds()) - begin_s_;
}

const Measurement& RunSeries::result() const {
  check(result_.has_value(), "the last run has ended");
  return *result_;
}

const Measurement& RunSeries::wait() {
  advance_to_the_end(*this);
  return result();
}

void RunSeries::open_log() const {
  make_new_file(spec_.log, "write the log");
}

ChildSpec RunSeries::spec_of_run() const {
  ChildSpec spec = spec_;
  if (!several()) return spec;
  spec.job.runs = 1;
  spec.log = log_of_run(spec_.log);
  spec.series.clear();  // a series is of one run
  spec.trackers.clear();
  // Chances are drawn anew for each run, and noise is that of the sample.
  spec.attempt = static_cast<int>((spec_.attempt - 1) * progress_.runs + progress_.run);
  return spec;
}

void RunSeries::take_run() {
  runs_.push_back(child_->result());
  seconds_.push_back(child_->elapsed_s());
  append_log();
  const Measurement& run = runs_.back();
  progress_.endings.push_back(ending_text(run));
  if (asked_ && !(run.status == Status::kValid && progress_.run == progress_.runs)) {
    settle(run, *asked_);
  } else if (concerns_all_runs(run)) {
    settle(run, *run.reason);
  } else if (progress_.run == progress_.runs) {
    finish(measurement_of_runs(runs_, seconds_));
  } else {
    start_next(run);
  }
}

void RunSeries::start_next(const Measurement& before) {
  ++progress_.run;
  progress_.heartbeat = {};
  try {
    child_ = std::make_unique<ChildMeasurement>(spec_of_run());
  } catch (const InputError& error) {
    settle(before, {ReasonCode::kInternal, error.what(), {}, spec_.final_log});
  }
}

// The measurement fails as a whole.
void RunSeries::settle(const Measurement& run, const Reason& reason) {
  Measurement measurement = run;
  measurement.started_at = runs_.front().started_at;
  measurement.extra = Json::object();
  set_outcome(measurement, Status::kFailed, reason);
  finish(std::move(measurement));
}

void RunSeries::finish(Measurement measurement) {
  result_ = std::move(measurement);
  if (several()) result_->job = job_in_result(spec_.job);  // that of a run is for one run
  end_s_ = steady_seconds();
}

// Moves what the run wrote into the log of all.
void RunSeries::append_log() const {
  std::string text = "run " + std::to_string(progress_.run) + " of " +
                     std::to_string(progress_.runs) + ": " + ending_text(runs_.back()) + "\n";
  const fs::path run_log = log_of_run(spec_.log);
  text += take_text(run_log);
  for (int rank = 0; fs::exists(log_of_rank(run_log, rank)); ++rank) {
    text += "rank " + std::to_string(rank) + ":\n" + take_text(log_of_rank(run_log, rank));
  }
  try {
    append_to_file(spec_.log, text + "\n", "write the log");
  } catch (const InputError&) {
    // The folder is gone, or its disk is full: whoever keeps the measurement notices it.
  }
}

}  // namespace sftbench
