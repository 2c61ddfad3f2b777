#include "trackers/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "sftbench/base/environment.h"
#include "trackers/tensorboard_events.h"

namespace sftbench {
namespace {

constexpr size_t kMostFolderBytes = 200;

std::string scalar_tag(const Point& point) {
  switch (point.group) {
    case PointGroup::kTraining:
      return "train/" + point.name;
    case PointGroup::kEvaluation:
      return "eval/" + point.name;
    case PointGroup::kSystem:
      return "system/" + point.name;
    case PointGroup::kMeasured:
      break;
  }
  return "measured/" + point.name;
}

// As TensorBoard's own writer names them: readers take the files of a folder in this order.
std::string event_file_name(double wall_s) {
  static std::atomic<int> files = 0;
  std::array<char, 384> name{};
  std::snprintf(name.data(), name.size(), "events.out.tfevents.%010lld.%s.%d.%d",
                static_cast<long long>(wall_s), host_name().c_str(), static_cast<int>(::getpid()),
                files++);
  return name.data();
}

}  // namespace

std::string tensorboard_folder(const TrackedRun& run) {
  std::string folder = run.name + "-" + run.entity_id;
  for (char& c : folder) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '\\' || byte < 0x20 || byte == 0x7F) c = '_';
  }
  if (folder.size() <= kMostFolderBytes) return folder;
  size_t end = kMostFolderBytes;  // not within a character
  while (end > 0 && (static_cast<unsigned char>(folder[end]) & 0xC0) == 0x80) --end;
  return folder.substr(0, end);
}

void TensorboardTracker::begin(const TrainBegin& begin, double wall_s) {
  step_ = begin.resumed_step;
  const std::filesystem::path folder = std::filesystem::path(directory_) / tensorboard_folder(run_);
  file_.emplace(folder / event_file_name(wall_s), AppendedFile::Mode::kNew);
  std::vector<std::string> tags;
  for (const std::string& name : measured_names(run_.experiment)) {
    tags.push_back(scalar_tag({PointGroup::kMeasured, name, 0, 0, 0, 0}));
  }
  records_ = version_event(wall_s) + session_start_event(wall_s, begin.resumed_step + 1) +
             experiment_event(wall_s, run_.inputs, tags) +
             run_inputs_event(wall_s, run_.inputs, run_.key);
}

void TensorboardTracker::add(const std::vector<Point>& points) {
  for (const Point& point : points) {
    if (point.group == PointGroup::kTraining) step_ = point.step;
    records_ += scalar_event(point.wall_s, point.step, scalar_tag(point), point.value);
  }
  waiting_ += static_cast<int64_t>(points.size());
}

void TensorboardTracker::flush() {
  if (records_.empty()) return;
  file_->write(records_);
  records_.clear();
  written_ += waiting_;
  waiting_ = 0;
}

void TensorboardTracker::end(const TrackerEnding& ending) {
  flush();
  const int64_t before = written_;
  const Measurement* measurement = ending.measurement.get();
  if (measurement != nullptr) add(points_of_measurement(*measurement, step_, ending.wall_s));
  records_ +=
      run_end_event(ending.wall_s, measurement != nullptr && measurement->status == Status::kValid);
  flush();
  written_ = before;  // these are in the result, too, and were never given
}

}  // namespace sftbench
