// The command that measures one cell of a sweep again.
#pragma once

#include <string>

#include "cli/sweep_arguments.h"

namespace sftbench {

// `sftbench run` with everything that makes this measurement what it is.
std::string sweep_cell_command(const SweepArguments& arguments, const Cell& cell);

}  // namespace sftbench
