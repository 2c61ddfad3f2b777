#include "trackers/json_lines.h"

#include <cmath>

#include "sftbench/measure/training_log_line.h"

namespace sftbench {
namespace {

// Losses have fms-hf-tuning's names.
std::string line_name(const Point& point) {
  switch (point.group) {
    case PointGroup::kTraining:
      return point.name == "loss" ? "training_loss" : point.name;
    case PointGroup::kEvaluation:
      return "validation_" + point.name;
    case PointGroup::kSystem:
      return "system/" + point.name;
    case PointGroup::kMeasured:
      return "measured/" + point.name;
  }
  return point.name;
}

}  // namespace

void JsonLinesTracker::begin(const TrainBegin& begin, double) {
  step_ = begin.resumed_step;
  file_.emplace(path_, AppendedFile::Mode::kAppend);
}

void JsonLinesTracker::add(const std::vector<Point>& points) {
  for (const Point& point : points) {
    if (point.group == PointGroup::kTraining || point.group == PointGroup::kEvaluation) {
      step_ = point.step;
      epoch_ = point.epoch;
    }
    lines_ += training_log_line(line_name(point), epoch_, step_, std::llround(point.wall_s * 1e6),
                                point.value);
  }
  waiting_ += static_cast<int64_t>(points.size());
}

void JsonLinesTracker::flush() {
  if (lines_.empty()) return;
  file_->write(lines_);
  lines_.clear();
  written_ += waiting_;
  waiting_ = 0;
}

void JsonLinesTracker::end(const TrackerEnding& ending) {
  flush();
  if (!ending.measurement) return;
  const int64_t before = written_;
  add(points_of_measurement(*ending.measurement, step_, ending.wall_s));
  flush();
  written_ = before;  // these are in the result, too, and were never given
}

}  // namespace sftbench
