// The values that trackers get, made from events: one list for all kinds, so that each shows the
// same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/measure/events.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

enum class PointGroup { kTraining, kEvaluation, kSystem, kMeasured };

struct Point {
  PointGroup group = PointGroup::kTraining;
  std::string name;  // "loss", "gpu0_power_watts"
  int64_t step = 0;  // optimization steps that are done; of the system: readings before it
  double epoch = 0;
  double wall_s = 0;  // seconds since 1970
  double value = 0;
};

class PointMaker {
 public:
  static std::vector<Point> of_step(const StepEvent& event, double wall_s);
  static std::vector<Point> of_evaluation(const EvaluationEvent& event, double wall_s);
  // A share of the CPU is that since the reading before.
  std::vector<Point> of_reading(const SystemReading& reading, double wall_s);

 private:
  std::optional<SystemReading> last_;
  int64_t readings_ = 0;
};

// The measured properties, as of the last step.
std::vector<Point> points_of_measurement(const Measurement& measurement, int64_t step,
                                         double wall_s);

}  // namespace sftbench
