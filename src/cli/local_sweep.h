// A sweep on this machine.
#pragma once

#include "cli/sweep_arguments.h"
#include "sftbench/results/table.h"

namespace sftbench {

// Prints what a sweep would do. Returns the exit status.
int preview_sweep(const SweepArguments& arguments, OutputFormat format);

// Measures and prints how the cells ended. `quiet`: without progress. Returns the exit status.
int sweep_here(const SweepArguments& arguments, OutputFormat format, bool quiet);

}  // namespace sftbench
