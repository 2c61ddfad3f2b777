// A run of three steps for trackers, told to them as an engine and the sampler would.
#pragma once

#include <string>
#include <vector>

#include "sftbench/trackers/trackers.h"

namespace sftbench {

inline TrackedRun run_of_test() {
  TrackedRun run;
  run.key = run.name = "0123456789abcdef0123456789abcdef";
  run.experiment = "finetune_full_benchmark-v1.0.0";
  run.experiment_id = "SFTTrainer.finetune_full_benchmark-v1.0.0";
  run.entity_id = "batch_size.4-model_name.smollm2-135m";
  run.inputs = {
      {"batch_size", 4}, {"learning_rate", 1e-5}, {"model_name", "smollm2-135m"}, {"r", nullptr}};
  run.command = "sftbench run";
  return run;
}

inline StepEvent step_of_test(int64_t step) {
  StepEvent event;
  event.step = step;
  event.epoch = 0.25 * static_cast<double>(step);
  event.begin_s = 100 + 2 * static_cast<double>(step);
  event.end_s = event.begin_s + 1.5;
  event.loss = 11.5 - static_cast<double>(step);
  event.grad_norm = 2.25;
  event.learning_rate = 1e-5;
  event.tokens.padded = 1024;
  event.tokens.dataset = 768;
  return event;
}

inline SystemReading reading_of_test(int64_t count) {
  SystemReading reading;
  reading.time_s = 100 + static_cast<double>(count);
  reading.cpu_seconds = 2 * static_cast<double>(count);
  reading.memory_percent = 5;
  reading.host_memory_percent = 25;
  GpuReading gpu;
  gpu.utilization_percent = 90;
  gpu.power_watts = 300;
  gpu.power_limit_watts = 400;
  reading.gpus = {gpu};
  return reading;
}

inline Measurement measurement_of_test() {
  Measurement measurement;
  measurement.status = Status::kValid;
  measurement.measured = {{"train_runtime", 5.5},
                          {"train_samples_per_second", 2.0},
                          {"train_steps_per_second", 0.5},
                          {"train_tokens_per_second", 558.5},
                          {"train_tokens_per_gpu_per_second", 558.5},
                          {"is_valid", 1}};
  measurement.extra = {{"warmup_steps", 0},
                       {"tokens", {{"dataset", 2304}}},
                       {"startup_seconds", {{"weights", 1.25}}}};
  return measurement;
}

inline void tell_steps(Trackers& trackers, int64_t steps = 3) {
  trackers.on_sample(reading_of_test(0));
  TrainBegin begin;
  begin.total_steps = steps;
  trackers.on_train_begin(begin);
  TrainControl control;
  for (int64_t step = 1; step <= steps; ++step) {
    trackers.on_step_end(step_of_test(step), control);
    trackers.on_sample(reading_of_test(step));
  }
}

// Values that tell_steps() makes of three steps and four readings.
inline constexpr int kValuesOfTest = 3 * 7 + 4 * 5 + 3;

inline TrackerLimits limits_of_test() {
  TrackerLimits limits;
  limits.period_s = 0.01;
  limits.first_wait_s = 0.01;
  limits.end_s = 60;
  return limits;
}

}  // namespace sftbench
