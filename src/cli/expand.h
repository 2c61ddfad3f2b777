// sftbench expand SPACE: lists the entities of a space with verdict and reason; trains nothing,
// loads no libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_expand_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
