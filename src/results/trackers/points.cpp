#include "trackers/points.h"

#include <cmath>

namespace sftbench {

std::vector<Point> PointMaker::of_step(const StepEvent& event, double wall_s) {
  const double seconds = event.end_s - event.begin_s;
  std::vector<Point> points;
  const auto add = [&](const char* name, double value) {
    points.push_back({PointGroup::kTraining, name, event.step, event.epoch, wall_s, value});
  };
  add("loss", event.loss);
  add("grad_norm", event.grad_norm);
  add("learning_rate", event.learning_rate);
  add("epoch", event.epoch);
  add("step_seconds", seconds);
  if (seconds > 0) {
    add("tokens_per_second", static_cast<double>(event.tokens.padded) / seconds);
    add("dataset_tokens_per_second", static_cast<double>(event.tokens.dataset) / seconds);
  }
  if (event.device_allocated_bytes > 0) {
    add("device_allocated_bytes", static_cast<double>(event.device_allocated_bytes));
  }
  return points;
}

std::vector<Point> PointMaker::of_evaluation(const EvaluationEvent& event, double wall_s) {
  const auto point = [&](const char* name, double value) {
    return Point{PointGroup::kEvaluation, name, event.step, event.epoch, wall_s, value};
  };
  return {point("loss", event.loss), point("perplexity", std::exp(event.token_loss))};
}

std::vector<Point> PointMaker::of_reading(const SystemReading& reading, double wall_s) {
  std::vector<Point> points;
  const auto add = [&](const std::string& name, const std::optional<double>& value) {
    if (value) points.push_back({PointGroup::kSystem, name, readings_, 0, wall_s, *value});
  };
  if (last_ && reading.time_s > last_->time_s) {
    add("cpu_percent",
        100 * (reading.cpu_seconds - last_->cpu_seconds) / (reading.time_s - last_->time_s));
  }
  add("memory_percent", reading.memory_percent);
  add("host_memory_percent", reading.host_memory_percent);
  for (size_t i = 0; i < reading.gpus.size(); ++i) {
    const GpuReading& gpu = reading.gpus[i];
    const std::string prefix = "gpu" + std::to_string(i) + "_";
    add(prefix + "utilization_percent", gpu.utilization_percent);
    add(prefix + "memory_percent", gpu.memory_percent);
    add(prefix + "power_watts", gpu.power_watts);
    if (gpu.power_watts && gpu.power_limit_watts && *gpu.power_limit_watts > 0) {
      add(prefix + "power_percent", 100 * *gpu.power_watts / *gpu.power_limit_watts);
    }
    add(prefix + "temperature_celsius", gpu.temperature_celsius);
  }
  last_ = reading;
  ++readings_;
  return points;
}

std::vector<Point> points_of_measurement(const Measurement& measurement, int64_t step,
                                         double wall_s) {
  std::vector<Point> points;
  for (const auto& [name, value] : measurement.measured.items()) {
    if (value.is_number()) {
      points.push_back({PointGroup::kMeasured, name, step, 0, wall_s, value.get<double>()});
    }
  }
  return points;
}

}  // namespace sftbench
