#include "cli/run_view.h"
#include "sftbench/base/quantity_text.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <string>

namespace sftbench {

RunView::RunView(const TrainingJob& job, const Backend& backend, const std::filesystem::path& log,
                 bool shows_progress)
    : job_(job), starts_ranks_(backend.starts_ranks()), log_(log), step_log_(log_) {
  if (!job.save.output_directory.empty()) training_log_.emplace(job.save);
  if (!shows_progress) return;
  progress_.emplace(std::cerr, ::isatty(STDERR_FILENO) != 0, job,
                    [&backend](const std::string& dtype) { return backend.peak(dtype); });
  clears_progress_.emplace(*progress_);
}

void RunView::begin() {
  spdlog::info("measuring {} with {}", job_.entity_id, job_.experiment_id);
  if (!progress_) return;
  progress_->phase(starts_ranks_ ? "starting " + counted(job_.device.ranks, "rank")
                                 : "starting the engine");
}

std::vector<TrainObserver*> RunView::observers() {
  std::vector<TrainObserver*> all;
  if (progress_) all.push_back(&*clears_progress_);
  all.push_back(&step_log_);
  if (training_log_) all.push_back(&*training_log_);
  if (progress_) all.push_back(&*progress_);
  return all;
}

void RunView::end(const Measurement& measurement) {
  if (const auto& reason = measurement.reason) {
    log_.line("error", reason_text(reason->code, reason->message, reason->evidence));
  }
}

}  // namespace sftbench
