// Figures of a machine on the command line, in place of those of config/machines.yaml or of
// `doctor --probe`.
#pragma once

#include <CLI/CLI.hpp>

#include "sftbench/advise/oracle.h"

namespace sftbench {

void add_machine_options(CLI::App& command, MachineOverrides& machine);
void add_free_memory_option(CLI::App& command, MachineOverrides& machine);

}  // namespace sftbench
