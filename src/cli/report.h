// sftbench report DIR: tables, CSV, JSON and a page of the measurements in a directory. Trains
// nothing, loads no libtorch, changes nothing.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout or a file and sets `exit_code`.
void add_report_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
