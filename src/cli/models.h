// sftbench models [NAME]: the models that are known, or one in full with the source of each fact.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_models_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
