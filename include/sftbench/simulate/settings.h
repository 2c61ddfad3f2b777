// What a simulated machine is like and what goes wrong on it: --simulate key=value. Like the
// machine of a real run these settings are no inputs of a measurement; a result records them under
// environment.simulation.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench {

struct SimulationSettings {
  // --- the machine, in simulated seconds
  int64_t steps = 0;        // replaces the planned steps; 0: those of the job
  double step_s = 0;        // of every step; 0: as predicted, else the job's FLOPs over flops_per_s
  double flops_per_s = 0;   // of one device; 0: 4e14 of a GPU, 2e11 of a CPU
  double noise = 0.02;      // standard deviation of a step's time, as a fraction of it
  double memory_noise = 0;  // the same of what a device needs, drawn for each attempt
  int64_t seed = 42;        // of noise and chances

  // --- real time and memory: none of it is spent unless asked
  double startup_s = 0;     // before the first step
  double sleep_s = 0;       // in every step
  double allocate_gib = 0;  // taken and written before the first step

  // --- faults; steps count from 1, 0 is never
  std::optional<double> oom_gpu_above_gib;   // of device memory, instead of what the GPU has
  std::optional<double> oom_host_above_gib;  // of host memory
  std::optional<ReasonCode> fail;            // before the first step
  int64_t hang_at_step = 0;                  // after it, no heartbeat comes any more
  int64_t crash_at_step = 0;                 // with crash_signal
  int crash_signal = SIGSEGV;
  int64_t exit_at_step = 0;  // status 7 and no result

  // Of the first attempt, the second, ...: none, oom_gpu, fail, hang, crash or exit, after step 1.
  // The runs that make up one measurement are attempts, too. Later attempts have none.
  std::vector<std::string> faults;

  // --- the same by chance; the step is drawn, too
  double oom_gpu_probability = 0;
  double fail_probability = 0;  // with the code of `fail`, INTERNAL when there is none
  double hang_probability = 0;
  double crash_probability = 0;
};

// InputError with every assignment that is wrong: unknown key (with the nearest one), no number, a
// value out of its range.
SimulationSettings parse_simulation(const std::vector<std::string>& assignments);

// The settings of one attempt, from 1: its own of `faults` is among those that hold.
SimulationSettings settings_of_attempt(const SimulationSettings& settings, int attempt);

// A line per key, with its meaning and default, for --help.
std::string simulation_help();

}  // namespace sftbench
