// sftbench completion bash|zsh|fish: a script for the shell, which asks the program itself, by its
// hidden command `complete LINE`, what may stand next.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers both. Their callbacks print to stdout and set `exit_code`. InputError for another
// shell.
void add_completion_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
