// --backend libtorch|simulate and --simulate KEY=VALUE, of the commands that measure.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/launch/backend.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct BackendOptions {
  std::string backend;                // empty: not given
  std::vector<std::string> simulate;  // simulate/settings.h

  std::string name() const { return backend.empty() ? kBackendLibtorch : backend; }
};

void add_backend_options(CLI::App& command, BackendOptions& options);

// `--simulate help` prints the keys to stdout and ends the program well (CLI::Success). InputError
// with all that is wrong: an unknown backend or setting, a setting without the backend.
void check_backend(const BackendOptions& options);

// What a simulated run is told.
struct SimulatedRun {
  std::vector<std::string> assignments;  // REQUIRES: checked by check_backend
  int sample = 1;
  int attempt = 1;
};

// The backend that `job.backend` names. `ranked` is for several ranks that this process starts.
// Without it this process is one of the ranks.
std::unique_ptr<Backend> choose_backend(const TrainingJob& job, const SimulatedRun& simulated,
                                        std::optional<RankedSpec> ranked);

}  // namespace sftbench
