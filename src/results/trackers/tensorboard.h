// --track tensorboard=DIR: an event file in a folder of DIR for each measurement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trackers/appended_file.h"
#include "trackers/tracker.h"

namespace sftbench {

class TensorboardTracker : public Tracker {
 public:
  TensorboardTracker(std::string directory, const TrackedRun& run)
      : directory_(std::move(directory)), run_(run) {}

  void begin(const TrainBegin& begin, double wall_s) override;
  void add(const std::vector<Point>& points) override;
  void flush() override;
  void end(const TrackerEnding& ending) override;
  int64_t written() const override { return written_; }

 private:
  std::string directory_;
  const TrackedRun& run_;
  std::optional<AppendedFile> file_;
  std::string records_;  // that wait for flush()
  int64_t waiting_ = 0;
  int64_t written_ = 0;
  int64_t step_ = 0;
};

// "<name>-<entity id>", cut to what a file name can hold. The name comes first, so that a
// measurement that is repeated finds its folder.
std::string tensorboard_folder(const TrackedRun& run);

}  // namespace sftbench
