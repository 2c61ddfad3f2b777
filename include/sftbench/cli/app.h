// The command line as a whole: subcommands, the options that all of them share, help, errors.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace sftbench {

inline constexpr int kUsageExitCode = 2;

// The app with every subcommand; a subcommand's callback sets `exit_code`. Also what completion and
// the nearest spelling of a mistyped word are made from.
void build_app(CLI::App& app, int& exit_code);

// Parses, runs, reports: the whole program. Returns the exit status (cli.md): 0, 2, 3, 4, 130.
int run_app(int argc, char** argv);

}  // namespace sftbench
