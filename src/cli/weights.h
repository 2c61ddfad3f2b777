// sftbench weights fetch | check: fills a Hugging Face cache directory from a hub, and verifies
// offline what is in it.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "sftbench/cli/app.h"

namespace sftbench {

// --fetch of commands that measure.
void add_fetch_option(CLI::App& command, bool& fetch);

// Fetches these models of the hub into the cache below `hf_home` (HF_HOME where there is none), with
// progress on stderr. What kept any of them from coming; empty: all are here. InputError as
// find_hub_endpoint() has them, RunError(kWeights) as fetch_models().
std::vector<std::string> fetch_absent(const std::vector<std::string>& hub_ids,
                                      const std::optional<std::string>& hf_home,
                                      bool shows_progress);

// Registers the subcommands; their callbacks print a table to stdout, progress to stderr, and set
// `exit_code`: 0 all models are whole, 4 some are not, 130 interrupted.
void add_weights_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace sftbench
