// What comes from a hub: the command `fetch` of models and of datasets, and --fetch of commands
// that measure.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/cli/app.h"
#include "sftbench/huggingface/fetch.h"
#include "sftbench/results/table.h"

namespace sftbench {

// `weights fetch` or `dataset fetch`. The callback prints a table to stdout, progress to stderr,
// and sets `exit_code`: 0 all is whole, 4 something is not, 130 interrupted.
void add_fetch_command(CLI::App& parent, const CommonOptions& common, RepositoryKind kind,
                       int& exit_code);

// --fetch of commands that measure.
void add_fetch_option(CLI::App& command, bool& fetch);

// What kept any from coming.
struct FetchProblems {
  std::vector<std::string> models, datasets;
};

// Fetches these into the cache below `hf_home` (HF_HOME where there is none), with progress on
// stderr. InputError as find_hub_endpoint() has them, RunError(kWeights) as fetch_repositories().
FetchProblems fetch_absent(const std::vector<FetchRequest>& requests,
                           const std::optional<std::string>& hf_home, bool shows_progress);

// Bytes as a person or a program reads them in a table.
Json size_cell(uint64_t size_bytes, bool people);
bool is_for_people(OutputFormat format);

}  // namespace sftbench
