#include "cli/measuring_session.h"

#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/launch/devices.h"
#include "sftbench/launch/engine_library.h"
#include "sftbench/launch/memory_preflight.h"
#include "sftbench/measure/system_sampler.h"

namespace sftbench {

std::string reason_text(ReasonCode code, const std::string& message, const std::string& evidence) {
  return std::string(to_string(code)) + ": " + message +
         (evidence.empty() ? "" : "\nevidence: " + evidence);
}

MeasuringSession::MeasuringSession(const TrainingJob& job, BackendChoice backend)
    : job_(job), backend_(std::move(backend)) {
  settings_.backend = backend_.name;
  if (simulated()) {
    auto engine =
        std::make_unique<SimulatedEngine>(backend_.simulate, backend_.sample, backend_.attempt);
    settings_.system_source = [simulation = engine.get()](int gpus) {
      return simulation->system_source(gpus);
    };
    settings_.peak = [](const std::string&) {
      return DevicePeak{{}, "simulated: no device computed"};
    };
    engine_ = std::move(engine);
    return;
  }
  nvml_ = Nvml::load(&no_nvml_);
  settings_.nvml = nvml_.get();
  settings_.peak = [this](const std::string& dtype) {
    // The catalog is read only for devices that it knows.
    static const GpuCatalog kNone;
    const bool gpus = job_.device.kind == "cuda";
    return device_peak(job_, nvml_.get(), gpus ? Catalog::shipped().gpus : kNone, dtype);
  };
}

std::optional<std::string> MeasuringSession::memory_warning() const {
  if (simulated()) return {};
  return sftbench::memory_warning(job_, memory_room(job_, nvml_.get()));
}

void MeasuringSession::prepare(bool generate_dataset,
                               const std::function<void(const std::string&)>& announce) {
  if (!simulated() && job_.device.kind == "cuda") {
    check_devices(job_, nvml_.get(), no_nvml_, Catalog::shipped().gpus);
  }
  if (generate_dataset) {
    ensure_named_dataset(named_dataset(job_.data.dataset_id), job_.data.path, announce);
  }
}

void MeasuringSession::join(LaunchedRanks& ranks) {
  launched_ = &ranks;
  own_engine_ = simulated() ? std::move(engine_) : load_engine();
  engine_ = ranks.engine_in_group(*own_engine_);
  settings_.other_ranks = [&ranks] {
    std::vector<ProcessSamples> samples;
    for (const RankRecord& record : ranks.hear()) samples.push_back({record.node, record.samples});
    return samples;
  };
}

RankRecord MeasuringSession::follow() {
  const RankPlace& place = launched_->group().place();
  const bool reads_gpus = job_.device.kind == "cuda" && place.local_rank == 0;
  const auto gpus = static_cast<int>(reads_gpus ? gpus_in_use(job_, nvml_.get()) : 0);
  const std::unique_ptr<SystemSource> source =
      settings_.system_source ? settings_.system_source(reads_gpus ? place.local_size : 0)
                              : make_system_source(nvml_.get(), gpus);
  SystemSampler sampler(*source, job_.sample_period_s);
  std::vector<TrainObserver*> observers = {&sampler};
  observers.insert(observers.end(), settings_.observers.begin(), settings_.observers.end());
  engine().train(job_, observers, settings_.interrupted);
  return {place.node, sampler.samples(), {}};
}

Measurement MeasuringSession::train() {
  return run_job(
      job_, [this]() -> Engine& { return engine(); }, settings_);
}

Measurement MeasuringSession::ended(const ErrorClass& error) const {
  Measurement measurement = begin_measurement(job_, settings_);
  set_outcome(measurement, makes_invalid(error.code) ? Status::kInvalid : Status::kFailed,
              {error.code, error.message, error.evidence, settings_.log});
  measurement.finished_at = utc_now_iso8601();
  return measurement;
}

Engine& MeasuringSession::engine() {
  if (!engine_) engine_ = make_engine();
  return *engine_;
}

std::unique_ptr<Engine> MeasuringSession::make_engine() {
  if (!starts_ranks()) return load_engine();
  if (job_.device.nodes > 1) {
    throw RunError(ReasonCode::kUnsupported,
                   "number_nodes " + std::to_string(job_.device.nodes) +
                       ": ranks on several machines are started by srun, mpirun, torchrun or "
                       "Kubernetes, each as `sftbench run` with the same arguments; "
                       "experiments/launch has an example of each");
  }
  if (job_.device.kind == "cuda") {
    for (const GpuIdentity& gpu : nvml_->gpus()) ranked_.gpus.push_back(gpu.uuid);
  }
  return std::make_unique<RankedEngine>(job_, ranked_);
}

}  // namespace sftbench
