// The log of one run: all that goes to stderr meanwhile, and a line for each optimization step.
// Written line by line, so that it tells how far a run came that did not end by itself.
#pragma once

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <string>

#include "sftbench/measure/events.h"

namespace sftbench {

class RunLog {
 public:
  // Replaces the file; messages of the default logger go there, too, until destruction. With
  // --log-level debug, lines of the file go to stderr.
  explicit RunLog(const std::filesystem::path& path);
  // Standard error is the log: that of a child whose parent has opened the file.
  RunLog();
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void line(const std::string& kind, const std::string& text) const;

 private:
  explicit RunLog(spdlog::sink_ptr sink);

  spdlog::sink_ptr file_;
  std::unique_ptr<spdlog::logger> logger_;  // to the file alone
  std::unique_ptr<spdlog::logger> debug_;   // to what the default logger wrote to before
};

class StepLog : public TrainObserver {
 public:
  explicit StepLog(const RunLog& log) : log_(log) {}
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_train_end(const TrainEnd& end) override;

 private:
  const RunLog& log_;
};

}  // namespace sftbench
