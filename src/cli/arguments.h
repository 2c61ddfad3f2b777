// sftbench arguments: the training arguments that run, sweep, predict, frontier and expand take.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

inline constexpr const char* kArgumentsCommand = "arguments";

void add_arguments_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
