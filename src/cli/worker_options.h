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

// NAME=VALUE each. InputError with all that is wrong.
std::map<std::string, std::string> worker_environment(const std::vector<std::string>& assignments);

}  // namespace sftbench
