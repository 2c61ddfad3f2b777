#include "sftbench/engine/engine.h"

#include "engine/environment.h"
#include "engine/train.h"
#include "engine/training_run.h"
#include "sftbench/engine/make_engine.h"

namespace sftbench {
namespace {

class TorchEngine : public Engine {
 public:
  void train(const TrainingJob& job, RankGroup& group, const std::vector<TrainObserver*>& observers,
             const std::function<bool()>& interrupted) override {
    TrainingRun run = prepare_run(job, group);
    sftbench::train(run, observers, interrupted);
  }

  Json environment() const override { return engine_environment(); }
};

}  // namespace

std::unique_ptr<Engine> make_engine() {
  return std::make_unique<TorchEngine>();
}

}  // namespace sftbench
