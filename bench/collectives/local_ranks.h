// Runs a function as N ranks on this machine, each in a process of its own.
#pragma once

#include <functional>

#include "sftbench/ranks/rank_group.h"

namespace sftbench {

// Returns when all have ended: 0, or 1 when one of them has failed (its error is on stderr).
int run_local_ranks(int ranks, const std::function<void(RankGroup&)>& function);

}  // namespace sftbench
