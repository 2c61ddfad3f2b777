// The subcommand explain: a result beside its prediction.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

void add_explain_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
