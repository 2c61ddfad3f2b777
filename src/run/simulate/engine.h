// An engine that trains nothing: it tells its observers what a run of the job would, on a clock of
// its own, so that a measurement costs a millisecond. Everything but the start-up times follows
// from job, settings, sample and attempt; two runs of the same give the same figures. For trying
// out spaces, sweeps and reports, and what they do about faults; never for deciding anything: its
// results carry inputs.backend and environment.backend "simulate" and a warning.
//
// On GPUs that config/machines.yaml knows, time and memory are those that `predict` says, and a
// device runs out of memory. Elsewhere, time is FLOPs over a device's speed (the FLOPs of
// measure/mfu.h, plus the recomputation of activation checkpointing); memory is weights, gradients,
// two moments and the activations of Korthikanti et al. 2022 (arXiv 2205.05198, table 2).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/engine/engine.h"
#include "sftbench/measure/system_source.h"
#include "sftbench/simulate/settings.h"

namespace sftbench {

class SimulatedEngine : public Engine {
 public:
  // Noise differs from sample to sample of a measurement, chances also from attempt to attempt.
  SimulatedEngine(const std::vector<std::string>& assignments, int sample = 1, int attempt = 1);

  // All ranks in one process: `group` is a world of one.
  // RunError and std::runtime_error as libtorch would throw them, when a fault asks for it; may
  // also never return, or end the process.
  void train_job(const TrainingJob& job, RankGroup& group,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override;

  // {backend: "simulate", simulation: [the assignments]}.
  Json environment() const override;

  // Readings on the simulated clock. The engine outlives it.
  std::unique_ptr<SystemSource> system_source(int gpus) const;

 private:
  class Source;

  SimulationSettings settings_;
  std::vector<std::string> assignments_;
  int sample_;
  int attempt_;
  std::atomic<double> now_s_ = 0;
  std::atomic<double> memory_percent_ = 0;
  std::atomic<double> power_limit_watts_ = 0;
};

}  // namespace sftbench
