// sftbench weights fetch | check: fills a Hugging Face cache directory from a hub, and verifies
// offline what is in it.
#pragma once

#include <CLI/CLI.hpp>

#include "sftbench/cli/app.h"

namespace sftbench {

// Registers the subcommands; their callbacks print a table to stdout, progress to stderr, and set
// `exit_code`: 0 all models are whole, 4 some are not, 130 interrupted.
void add_weights_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace sftbench
