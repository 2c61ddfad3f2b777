// sftbench experiments [ID]: the experiments that are known, or one in full: properties, domains,
// defaults, what it measures.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_experiments_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
