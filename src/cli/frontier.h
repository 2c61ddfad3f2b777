// The subcommand frontier: the largest batch or length that fits, found with few runs.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

void add_frontier_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
