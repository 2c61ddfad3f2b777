#include "simulate/engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <random>
#include <thread>

#include "sftbench/base/digest.h"
#include "sftbench/base/json_text.h"
#include "sftbench/catalog/shipped_gpus.h"
#include "simulate/cost_model.h"
#include "simulate/faults.h"

namespace sftbench {
namespace {

constexpr double kGpuFlopsPerSecond = 4e14;
constexpr double kCpuFlopsPerSecond = 2e11;
constexpr double kGpuBytes = 80.0 * (1 << 30);
constexpr double kGpuPowerLimitWatts = 700;  // of a GPU that config/gpus.yaml does not list

double power_limit_watts(const TrainingJob& job) {
  const Json name = job.inputs.value("gpu_model", Json());
  const GpuFacts* gpu = name.is_string() ? shipped_gpus().find(name.get<std::string>()) : nullptr;
  return gpu == nullptr ? kGpuPowerLimitWatts
                        : gpu->board_power_watts.value_or(kGpuPowerLimitWatts);
}
constexpr double kLeastStepFraction = 0.05;  // noise makes no step shorter than this part of it

std::mt19937_64 generator_of(const std::string& name) {
  return std::mt19937_64(std::stoull(digest(name).substr(0, 16), nullptr, 16));
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// The course of one run, step by step.
class Course {
 public:
  Course(const TrainingJob& job, const SimulationSettings& settings, JobCost cost,
         std::mt19937_64 generator)
      : job_(job), settings_(settings), cost_(std::move(cost)), generator_(generator) {
    const double speed = settings.flops_per_s > 0    ? settings.flops_per_s
                         : job.device.kind == "cuda" ? kGpuFlopsPerSecond
                                                     : kCpuFlopsPerSecond;
    const bool predicted = cost_.step_s > 0 && settings.flops_per_s <= 0;
    step_s_ = settings.step_s > 0 ? settings.step_s
              : predicted         ? cost_.step_s
                                  : cost_.flops_per_device / speed;
  }

  StepEvent step(int64_t number, double begin_s) {
    const double done = static_cast<double>(number) / static_cast<double>(cost_.begin.total_steps);
    const double factor = 1 + settings_.noise * gaussian(generator_);
    StepEvent event;
    event.step = number;
    event.epoch = done;
    event.begin_s = begin_s;
    event.end_s = begin_s + step_s_ * std::max(kLeastStepFraction, factor);
    event.loss = std::log(static_cast<double>(cost_.vocabulary)) *
                 (1 - 0.5 * done + settings_.noise * 0.1 * gaussian(generator_));
    event.grad_norm = 1 + uniform(generator_);
    event.learning_rate =
        job_.optimizer.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
    event.samples = cost_.samples;
    event.micro_batches = job_.batches.gradient_accumulation_steps;
    event.tokens = cost_.tokens;
    event.attention_flops = cost_.attention_flops;
    if (job_.device.kind == "cuda") {
      event.device_allocated_bytes = static_cast<int64_t>(cost_.device_bytes);
    }
    return event;
  }

  TrainEnd end(int64_t steps) const {
    const auto ranks = static_cast<size_t>(job_.device.ranks);
    const auto device_bytes = static_cast<int64_t>(cost_.device_bytes);
    TrainEnd end;
    end.steps = steps;
    end.host_peak_rss_bytes.assign(ranks,
                                   static_cast<int64_t>(cost_.host_bytes) / job_.device.ranks);
    if (job_.device.kind == "cuda") {
      end.device_peak_allocated_bytes.assign(ranks, device_bytes);
      end.device_peak_reserved_bytes.assign(ranks, device_bytes);
    }
    return end;
  }

 private:
  const TrainingJob& job_;
  const SimulationSettings& settings_;
  JobCost cost_;
  std::mt19937_64 generator_;
  double step_s_ = 0;
};

}  // namespace

class SimulatedEngine::Source : public SystemSource {
 public:
  Source(const SimulatedEngine& engine, int gpus) : engine_(engine), gpus_(gpus) {}

  SystemReading read() override {
    const double now_s = engine_.now_s_;
    SystemReading reading;
    reading.time_s = now_s;
    reading.cpu_seconds = now_s;  // one core is busy throughout
    reading.memory_percent = 50;
    reading.host_memory_percent = 50;
    for (int gpu = 0; gpu < gpus_; ++gpu) {
      const double utilization_percent = 90.0 + gpu % 8;
      const double power_watts = engine_.power_limit_watts_ * utilization_percent / 100;
      reading.gpus.push_back({.utilization_percent = utilization_percent,
                              .memory_percent = engine_.memory_percent_,
                              .power_watts = power_watts,
                              .power_limit_watts = engine_.power_limit_watts_,
                              .temperature_celsius = 60,
                              .energy_joules = power_watts * now_s});
    }
    return reading;
  }

 private:
  const SimulatedEngine& engine_;
  int gpus_;
};

SimulatedEngine::SimulatedEngine(const std::vector<std::string>& assignments, int sample,
                                 int attempt)
    : settings_(parse_simulation(assignments)),
      assignments_(assignments),
      sample_(sample),
      attempt_(attempt) {}

void SimulatedEngine::train_job(const TrainingJob& job, RankGroup& /*group*/,
                                const std::vector<TrainObserver*>& observers,
                                const std::function<bool()>& interrupted) {
  const std::string name = job.experiment + json_text(job.inputs) + " seed " +
                           std::to_string(settings_.seed) + " sample " + std::to_string(sample_);
  JobCost cost = cost_of(job);
  if (settings_.steps > 0) cost.begin.total_steps = settings_.steps;
  std::mt19937_64 chances = generator_of(name + " attempt " + std::to_string(attempt_));
  const bool on_gpu = job.device.kind == "cuda";
  const Faults faults(settings_of_attempt(settings_, attempt_), cost, on_gpu, chances);
  now_s_ = 0;
  power_limit_watts_ = power_limit_watts(job);
  const double gpu_bytes = cost.device_limit_bytes > 0 ? cost.device_limit_bytes : kGpuBytes;
  memory_percent_ = on_gpu ? std::min(100.0, 100 * cost.device_bytes / gpu_bytes) : 0;
  const TrainBegin begin = cost.begin;
  Course course(job, settings_, std::move(cost), generator_of(name));

  sleep_for(settings_.startup_s);
  faults.before_first_step();
  for (TrainObserver* observer : observers) observer->on_train_begin(begin);
  TrainControl control;
  int64_t step = 0;
  while (step < begin.total_steps && !control.stop) {
    sleep_for(settings_.sleep_s);
    const StepEvent event = course.step(++step, now_s_);
    now_s_ = event.end_s;
    for (TrainObserver* observer : observers) observer->on_step_end(event, control);
    faults.after_step(step);
    if (interrupted()) {
      throw RunError(ReasonCode::kKilled, "interrupted in step " + std::to_string(step));
    }
  }
  for (TrainObserver* observer : observers) observer->on_train_end(course.end(step));
}

Json SimulatedEngine::environment() const {
  return {{"backend", kBackendSimulate}, {"simulation", assignments_}};
}

std::unique_ptr<SystemSource> SimulatedEngine::system_source(int gpus) const {
  return std::make_unique<Source>(*this, gpus);
}

}  // namespace sftbench
