// sftbench arguments: the training arguments that run, sweep, predict, frontier and expand take.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "sftbench/translate/argument_options.h"

namespace sftbench {

inline constexpr const char* kArgumentsCommand = "arguments";

// Under a heading of their own. `given` must outlive the command.
void add_argument_options(CLI::App& command, std::vector<GivenOption>& given);

void add_arguments_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
