// sftbench completion bash|zsh|fish: a completion script for the shell, generated from the commands
// and options as they are registered, so that it cannot lag behind them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sftbench {

// Registers the subcommand; its callback prints the script to stdout and sets `exit_code`.
void add_completion_command(CLI::App& app, int& exit_code);

// InputError for another shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace sftbench
