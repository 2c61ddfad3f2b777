// sftbench dataset text [ID] | vision [ID] | list | count: makes the synthetic datasets, names
// them, counts the tokens of any JSONL or Parquet dataset and caches the counts.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommands; their callbacks print data to stdout, progress to stderr, and set
// `exit_code`.
void add_dataset_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
