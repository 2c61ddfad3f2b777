#include "cli/training_log.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/checkpoint/saved_folder.h"
#include "sftbench/measure/training_log_line.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What went wrong; empty: nothing.
std::string append_line(const fs::path& path, const std::string& line) {
  try {
    const OwnedFd file = open_to_append(path, "write");
    return write_whole(file.get(), line)
               ? ""
               : "cannot write " + path.string() + ": " + std::strerror(errno);
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TrainingLog::TrainingLog(const SavePlan& plan)
    : path_(fs::path(plan.output_directory) / kTrainingLogsFile),
      strategy_(plan.log_strategy),
      steps_(plan.log_steps),
      ratio_(plan.log_steps_ratio) {}

// A log belongs to one training: that of another one moves to where its checkpoints would.
void TrainingLog::set_aside(const TrainBegin& begin) {
  const fs::path folder = path_.parent_path();
  std::error_code error;
  if (!fs::exists(path_, error) || path_below(begin.resumed_from, folder)) return;
  const fs::path earlier = earlier_path(folder);
  if (fs::create_directories(earlier, error)) fs::rename(path_, earlier / path_.filename(), error);
  if (error) return fail("cannot move " + path_.string() + " aside: " + error.message());
  spdlog::info("{} of an earlier training is moved to {}", path_.string(), earlier.string());
}

void TrainingLog::on_train_begin(const TrainBegin& begin) {
  set_aside(begin);
  total_steps_ = begin.total_steps;
  steps_ = interval_steps(steps_, ratio_, total_steps_);
}

// As Trainer: the end of training ends an epoch, too, and nothing else.
bool TrainingLog::is_due(const StepEvent& event) const {
  if (strategy_ == IntervalStrategy::kSteps) return event.step % steps_ == 0;
  return event.epoch == std::floor(event.epoch) || event.step == total_steps_;
}

void TrainingLog::on_step_end(const StepEvent& event, TrainControl&) {
  if (strategy_ == IntervalStrategy::kNo) return;
  last_ = event;
  loss_sum_ += event.loss;
  ++losses_;
  if (is_due(event)) write_losses();
}

void TrainingLog::on_evaluation(const EvaluationEvent& event) {
  write("validation_loss", event.epoch, event.step, event.loss);
}

void TrainingLog::on_train_end(const TrainEnd&) {
  if (strategy_ == IntervalStrategy::kEpoch) write_losses();
}

void TrainingLog::write_losses() {
  if (losses_ == 0) return;
  write("training_loss", last_.epoch, last_.step, loss_sum_ / static_cast<double>(losses_));
  loss_sum_ = 0;
  losses_ = 0;
}

void TrainingLog::write(const char* name, double epoch, int64_t step, double value) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::error_code ignored;
  fs::create_directories(path_.parent_path(), ignored);
  const std::string problem =
      append_line(path_, training_log_line(name, epoch, step, now_us, value));
  if (!problem.empty()) fail(problem);
}

void TrainingLog::fail(const std::string& problem) {
  if (!broken_) spdlog::warn("{}", problem);
  broken_ = true;
}

}  // namespace sftbench
