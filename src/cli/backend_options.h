// --backend libtorch|simulate and --simulate KEY=VALUE, of the commands that measure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

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

}  // namespace sftbench
