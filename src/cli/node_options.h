// Options of `run` and `sweep` that say how ranks on several nodes are started.
#pragma once

#include <CLI/App.hpp>

#include "sftbench/launch/node_launch.h"

namespace sftbench {

void add_node_options(CLI::App& command, NodeOptions& nodes);

}  // namespace sftbench
