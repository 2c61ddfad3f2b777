// --track aim-info=FILE: the JSON that ado's wrapper of fms-hf-tuning writes to --aim_info_path,
// with aggregated metrics, as ado asks for them. Its reader is Metrics.from_aim_info_dict in
// wrapper_fms_hf_tuning/callbacks/metrics_tracker.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trackers/tracker.h"

namespace sftbench {

class AimInfoTracker : public Tracker {
 public:
  AimInfoTracker(std::string path, const TrackedRun& run) : path_(std::move(path)), run_(run) {}

  void begin(const TrainBegin& begin, double wall_s) override;
  void add(const std::vector<Point>& points) override;
  void end(const TrackerEnding& ending) override;
  int64_t written() const override { return written_; }

 private:
  struct Timed {
    double wall_s = 0;
    double value = 0;
  };
  struct Aggregate {
    double sum = 0, least = 0, most = 0;
    int64_t count = 0;

    void add(double value);  // one that is finite, else nothing
  };
  class MetricList;

  Json report(const Measurement& measurement, double end_wall_s) const;
  void put_system(MetricList& list, double from_wall_s) const;
  Json metrics(const Measurement& measurement, double from_wall_s) const;

  std::string path_;
  const TrackedRun& run_;
  double begin_wall_s_ = 0;
  std::map<std::string, Aggregate> training_;
  std::map<std::string, std::vector<Timed>> system_;  // which of them count is known at the end
  std::vector<Timed> steps_;                          // when they ended, and the seconds they took
  int64_t given_ = 0;
  int64_t written_ = 0;
};

}  // namespace sftbench
