#include "sftbench/launch/backend.h"

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/catalog/shipped_gpus.h"
#include "sftbench/launch/devices.h"
#include "sftbench/launch/engine_library.h"
#include "sftbench/launch/memory_preflight.h"

namespace sftbench {
namespace {

// This machine, read through NVIDIA's driver and /proc.
class MachineBackend : public Backend {
 public:
  explicit MachineBackend(const TrainingJob& job) : job_(job), nvml_(Nvml::load(&no_nvml_)) {}

  void check_devices() const override {
    // The catalog is read only for jobs that need it.
    if (on_gpus()) sftbench::check_devices(job_, nvml_.get(), no_nvml_, shipped_gpus());
  }

  std::optional<std::string> memory_warning() const override {
    return sftbench::memory_warning(job_, memory_room(job_, nvml_.get()));
  }

  Engine& engine() override {
    if (!engine_) engine_ = make_engine();
    return *engine_;
  }

  const Nvml* nvml() const override { return nvml_.get(); }
  int local_gpus() const override { return static_cast<int>(gpus_in_use(job_, nvml_.get())); }

  std::unique_ptr<SystemSource> system_source(int gpus) const override {
    return make_system_source(nvml_.get(), gpus);
  }

  DevicePeak peak(const std::string& dtype) const override {
    static const GpuCatalog kNone;
    return device_peak(job_, nvml_.get(), on_gpus() ? shipped_gpus() : kNone, dtype);
  }

 protected:
  virtual std::unique_ptr<Engine> make_engine() const = 0;

  bool on_gpus() const { return job_.device.kind == "cuda"; }

  const TrainingJob& job_;

 private:
  std::string no_nvml_;  // why nvml_ is null
  std::unique_ptr<Nvml> nvml_;
  std::unique_ptr<Engine> engine_;
};

class LocalBackend : public MachineBackend {
 public:
  using MachineBackend::MachineBackend;

 private:
  std::unique_ptr<Engine> make_engine() const override { return load_engine(job_.device.kind); }
};

class RankedBackend : public MachineBackend {
 public:
  RankedBackend(const TrainingJob& job, RankedSpec spec)
      : MachineBackend(job), spec_(std::move(spec)) {}

  bool starts_ranks() const override { return true; }

 private:
  std::unique_ptr<Engine> make_engine() const override {
    if (job_.device.nodes > 1) {
      throw RunError(ReasonCode::kUnsupported,
                     "number_nodes " + std::to_string(job_.device.nodes) +
                         ": ranks on several machines are started inside an allocation of Slurm or "
                         "with --hosts A,B; other launchers start `sftbench run` once for each "
                         "rank, as in experiments/launch");
    }
    RankedSpec spec = spec_;
    if (on_gpus()) {
      for (const GpuIdentity& gpu : nvml()->gpus()) spec.gpus.push_back(gpu.uuid);
    }
    return std::make_unique<RankedEngine>(job_, std::move(spec));
  }

  RankedSpec spec_;
};

class LaunchedBackend : public Backend {
 public:
  LaunchedBackend(Backend& own, LaunchedRanks& ranks)
      : own_(own), ranks_(ranks), engine_(ranks.engine_in_group(own.engine())) {}

  void check_devices() const override { own_.check_devices(); }
  std::optional<std::string> memory_warning() const override { return own_.memory_warning(); }
  Engine& engine() override { return *engine_; }
  const Nvml* nvml() const override { return own_.nvml(); }
  int local_gpus() const override { return own_.local_gpus(); }
  std::unique_ptr<SystemSource> system_source(int gpus) const override {
    return own_.system_source(gpus);
  }
  DevicePeak peak(const std::string& dtype) const override { return own_.peak(dtype); }

  std::vector<ProcessSamples> other_ranks() override {
    std::vector<ProcessSamples> samples;
    for (const RankRecord& record : ranks_.hear()) samples.push_back({record.node, record.samples});
    return samples;
  }

 private:
  Backend& own_;
  LaunchedRanks& ranks_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<Backend> make_local_backend(const TrainingJob& job) {
  return std::make_unique<LocalBackend>(job);
}

std::unique_ptr<Backend> make_ranked_backend(const TrainingJob& job, RankedSpec spec) {
  return std::make_unique<RankedBackend>(job, std::move(spec));
}

std::unique_ptr<Backend> make_launched_backend(Backend& own, LaunchedRanks& ranks) {
  return std::make_unique<LaunchedBackend>(own, ranks);
}

}  // namespace sftbench
