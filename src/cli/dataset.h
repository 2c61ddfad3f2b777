// sftbench dataset text [ID] | vision [ID] | list | fetch | count | show: makes the synthetic
// datasets, names them, fetches those of the hub, counts tokens and caches the counts, shows
// entries.
#pragma once

#include <CLI/CLI.hpp>

#include "sftbench/cli/app.h"

namespace sftbench {

// Registers the subcommands; their callbacks print data to stdout, progress to stderr, and set
// `exit_code`.
void add_dataset_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace sftbench
