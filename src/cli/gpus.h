// sftbench gpus [NAME]: the GPU products that are known, or one in full: peaks per dtype, memory,
// bandwidth, source.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_gpus_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
