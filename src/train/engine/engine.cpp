#include "sftbench/engine/engine.h"

#include <algorithm>
#include <optional>

#include "engine/environment.h"
#include "engine/probe.h"
#include "engine/rank_account.h"
#include "engine/train_steps.h"
#include "engine/training_run.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench/ops/route.h"
#include "sftbench/plan/classify_error.h"

namespace sftbench {
namespace {

void watch_device_memory(TrainingRun& run, const std::vector<TrainObserver*>& observers) {
  const bool wanted = std::any_of(observers.begin(), observers.end(), [](const TrainObserver* one) {
    return one->wants_memory_peak();
  });
  if (!wanted) return;
  run.memory_watch = watch_memory(*run.device);
  if (run.memory_watch)
    run.activations = watch_layers(std::move(run.activations), *run.memory_watch);
}

class TorchEngine : public Engine {
 public:
  void train_job(const TrainingJob& job, RankGroup& group,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override {
    std::optional<ops::EvenRoutes> even;  // no expert is chosen where nothing is computed
    if (group.rehearses()) even.emplace();
    // It lives until all ranks know of an error: what it waits for as it ends may be theirs.
    std::optional<TrainingRun> run;
    try {
      {
        LoadWatch watch(observers);  // says no more once training begins
        run.emplace(prepare_run(job, group, watch));
      }
      watch_device_memory(*run, observers);
      run->step_graph = make_step_graph(job, *run);
      train_steps(*run, group, observers, interrupted);
      if (run->timeline) write_trace(*run->timeline, group, job.trace_path);
    } catch (const std::exception& error) {
      if (group.world_size() == 1) throw;
      const ErrorClass found = classify_exception(error, job);
      const RankFailure agreed =
          group.fail({group.rank(), found.code, found.message, found.evidence, interrupted()});
      if (run) run->mesh->abort(agreed.message);
      throw error_of(agreed, group.ranks());
    }
  }

  Json environment() const override { return engine_environment(); }

  Json probe() override {
    Json collectives = probe_collectives();
    Json found = probe_processors();
    found["collectives"] = std::move(collectives);
    return found;
  }
};

}  // namespace

std::unique_ptr<Engine> make_engine() {
  return std::make_unique<TorchEngine>();
}

}  // namespace sftbench
