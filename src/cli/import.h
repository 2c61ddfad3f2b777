// sftbench import FILE: foreign measurements as evidence (advise/foreign_table.h), which
// `predict --score` reads. Trains nothing, loads no libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_import_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
