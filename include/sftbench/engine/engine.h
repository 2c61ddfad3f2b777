// The training half as the rest of the program sees it: this header includes no libtorch. The
// executable loads libsftbench_engine.so when it is about to train, and only then
// (launch/engine_library.h).
#pragma once

#include <functional>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/events.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

class Engine {
 public:
  virtual ~Engine() = default;

  // Trains one job, this process being one rank of `group`, telling `observers` what happens, in
  // their order: of all ranks on rank 0, of steps and this rank alone on the others. Collective;
  // all ranks end with the same RunError. `interrupted` is asked after each optimization step and
  // micro-batch; true ends the run with RunError(kKilled). Errors: RunError with the reason code of
  // the outcome (DATA, WEIGHTS, OOM_GPU, UNSUPPORTED, ...); InputError when a file of the model or
  // dataset is malformed.
  virtual void train_job(const TrainingJob& job, RankGroup& group,
                         const std::vector<TrainObserver*>& observers,
                         const std::function<bool()>& interrupted) = 0;

  // What it runs on: {libtorch, blas, threads, cuda, nccl, driver, gpus: [...]}.
  virtual Json environment() const = 0;

  // What this machine's processors and two ranks on it reach (engine/probe.h). Forks, so before
  // anything that may start threads. RunError(kUnsupported): this engine cannot.
  virtual Json probe() {
    throw RunError(ReasonCode::kUnsupported, "this engine measures no constants");
  }
};

// Exported by the engine library under these names; version and interface must equal the
// executable's.
extern "C" {
using CreateEngineFunction = Engine* (*)();
}
inline constexpr const char* kCreateEngineSymbol = "sftbench_create_engine";
inline constexpr const char* kEngineVersionSymbol = "sftbench_engine_version";
inline constexpr const char* kEngineInterfaceSymbol = "sftbench_engine_interface";

}  // namespace sftbench
