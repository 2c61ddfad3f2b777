// What goes wrong in one simulated run, settled before it begins: the settings that hold for every
// run, and the chances that this one drew.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "sftbench/simulate/settings.h"
#include "simulate/cost_model.h"

namespace sftbench {

// From 0 to 1, the same on every platform (the standard's distributions are not).
double uniform(std::mt19937_64& generator);

// Mean 0, deviation 1 (Box and Muller 1958).
double gaussian(std::mt19937_64& generator);

class Faults {
 public:
  // Draws its chances from `generator`, always the same number of times.
  Faults(const SimulationSettings& settings, const JobCost& cost, bool on_gpu,
         std::mt19937_64& generator);

  // Throws what libtorch would when memory does not suffice, RunError for `fail`.
  void before_first_step() const;

  // May not return: a hang, a crash, an exit.
  void after_step(int64_t step) const;

 private:
  void refuse_memory() const;

  SimulationSettings settings_;
  double device_gib_ = 0;
  double limit_gib_ = 0;  // 0: none
  double host_gib_ = 0;
  bool on_gpu_ = false;
  bool oom_gpu_ = false;  // drawn
};

}  // namespace sftbench
