// The options of a command line that workers of a campaign are given, too.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sftbench/campaign/campaign_plan.h"

namespace sftbench {

// In the order of the help. All but those that `left_out` names, which are the starter's own.
std::vector<WorkerOption> worker_options(const CLI::App& command,
                                         const std::vector<std::string>& left_out);

struct WorkerEnvironment {
  std::map<std::string, std::string> values;  // NAME=VALUE
  std::vector<std::string> secrets;  // NAME alone: whoever starts the workers has the value
};

// InputError with all that is wrong. `shared`: others can read what the engine gets, so that values
// which look like secrets are refused.
WorkerEnvironment worker_environment(const std::vector<std::string>& assignments, bool shared);

// InputError for the options whose values hold an address with a user, a password or a query.
void require_no_secrets(const std::vector<WorkerOption>& options);
// The same of YAML files that travel to workers (files_of), and for tokens in them.
void require_no_secrets(const std::map<std::string, std::string>& files);

}  // namespace sftbench
