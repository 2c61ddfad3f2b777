// sftbench predict SPACE: what one entity would take, by arithmetic (plan/cost_model.h): memory of
// a rank, bytes that it sends, seconds of a step. Trains nothing, writes nothing, loads no
// libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_predict_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
