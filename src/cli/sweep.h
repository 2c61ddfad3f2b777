// sftbench sweep SPACE: measures every entity of a space, each in a child process; goes on where an
// earlier sweep into the same folder stopped.
#pragma once

#include <CLI/CLI.hpp>

#include "sftbench/cli/app.h"

namespace sftbench {

// Registers the subcommand; its callback sets `exit_code`: 0 everything asked for is measured
// (valid or invalid), 4 something failed or the sweep had to stop, 130 interrupted.
void add_sweep_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace sftbench
