// --track jsonl=FILE: a line for each value, in the form of fms-hf-tuning's training_logs.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trackers/appended_file.h"
#include "trackers/tracker.h"

namespace sftbench {

class JsonLinesTracker : public Tracker {
 public:
  explicit JsonLinesTracker(std::string path) : path_(std::move(path)) {}

  void begin(const TrainBegin& begin, double wall_s) override;
  void add(const std::vector<Point>& points) override;
  void flush() override;
  void end(const TrackerEnding& ending) override;
  int64_t written() const override { return written_; }

 private:
  std::string path_;
  std::optional<AppendedFile> file_;
  std::string lines_;  // that wait for flush()
  int64_t waiting_ = 0;
  int64_t written_ = 0;
  int64_t step_ = 0;  // the last one: readings of the machine carry it, too
  double epoch_ = 0;
};

}  // namespace sftbench
