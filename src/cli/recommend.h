// sftbench recommend: which GPUs, how many, with which batches (advise/recommend.h). Trains
// nothing, loads no libtorch.
#pragma once

#include <CLI/CLI.hpp>

namespace sftbench {

// Registers the subcommand; its callback prints to stdout and sets `exit_code`.
void add_recommend_command(CLI::App& app, int& exit_code);

}  // namespace sftbench
