// What a sweep says when it ends, and the exit status that scripts rely on.
#pragma once

#include <set>
#include <string>

#include "sftbench/results/token_cost.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

// To the log. `results`: the folder, as the user named it.
void say_how_it_ended(SweepEnd end, const Sweep& sweep, const SweepOptions& options,
                      const std::string& results);

// 0: every cell is valid or invalid; 4: one failed, or the sweep had to stop; 6: cells remain for
// others, or for later; 130: interrupted.
// The best of the results with these keys, what comes next to it, and the command for a report.
// Nothing where nothing is valid.
void say_what_is_best(const std::string& results, const std::set<std::string>& keys,
                      const DevicePrices& prices);

int sweep_exit_code(SweepEnd end, const Sweep& sweep, const SweepOptions& options);

}  // namespace sftbench
