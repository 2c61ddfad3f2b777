// The command line as a whole: subcommands, the options that all of them share, help, errors.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sftbench/base/error.h"

namespace sftbench {

inline constexpr int kUsageExitCode = 2;
inline constexpr int kFailedExitCode = 4;
inline constexpr int kRemainExitCode = 6;  // of a sweep: cells remain for others, or for later

// Options that stand before or behind any subcommand.
struct CommonOptions {
  std::string log_level = "info";
  bool no_progress = false;
};

// The whole program: an app with every subcommand. A subcommand's callback does its work, prints
// data to stdout and everything else to stderr, and sets `exit_code`. `common` outlives the app.
void build_app(CLI::App& app, CommonOptions& common, int& exit_code);

// Parses, runs, reports. Returns the exit status: 0, 2, 3, 4, 5, 6 or 130.
int run_app(int argc, char** argv);

// Tells the user. Returns the exit status.
int report(const InputError& error);

// What is wrong with a word that the app does not know, with the nearest one that it does. Empty
// when all words are known.
std::string unknown_word_message(const CLI::App& app);

}  // namespace sftbench
