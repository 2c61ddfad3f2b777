// sftbench status: how far a campaign is, who measures what, and what failed.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

void add_status_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
