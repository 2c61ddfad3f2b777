#include "sftbench/simulate/backend.h"

#include <algorithm>

#include "simulate/engine.h"

namespace sftbench {
namespace {

class SimulatedBackend : public Backend {
 public:
  SimulatedBackend(const TrainingJob& job, const std::vector<std::string>& assignments, int sample,
                   int attempt)
      : job_(job), engine_(assignments, sample, attempt) {}

  void check_devices() const override {}
  std::optional<std::string> memory_warning() const override { return {}; }
  Engine& engine() override { return engine_; }
  const Nvml* nvml() const override { return nullptr; }

  int local_gpus() const override {
    if (job_.device.kind != "cuda") return 0;
    return static_cast<int>(job_.device.ranks / std::max<int64_t>(1, job_.device.nodes));
  }

  std::unique_ptr<SystemSource> system_source(int gpus) const override {
    return engine_.system_source(gpus);
  }

  DevicePeak peak(const std::string& /*dtype*/) const override {
    return {{}, "simulated: no device computed"};
  }

 private:
  const TrainingJob& job_;
  SimulatedEngine engine_;
};

}  // namespace

std::unique_ptr<Backend> make_simulated_backend(const TrainingJob& job,
                                                const std::vector<std::string>& assignments,
                                                int sample, int attempt) {
  return std::make_unique<SimulatedBackend>(job, assignments, sample, attempt);
}

}  // namespace sftbench
