// `doctor --probe`: measures what this machine reaches, and keeps it for predict.
#pragma once

#include "sftbench/results/table.h"

namespace sftbench {

// Writes probe_file() and prints what was measured. The exit status: 0, or kFailedExitCode where
// the engine could not measure, with the reason on stderr.
int probe_this_machine(OutputFormat format);

}  // namespace sftbench
