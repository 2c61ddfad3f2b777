// Measures a job of several runs for a command that has nothing else to do, and tells people on the
// way: a line that renews itself on a terminal, and one that stays when a run has ended.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "sftbench/launch/run_series.h"

namespace sftbench {

// "run 2/5, step 3/5, loss 2.345, 12 tokens/s, 0:07".
std::string series_line(const SeriesProgress& progress, double elapsed_s);

enum class SeriesDisplay { kNothing, kLines, kTerminal };

// Once `interrupted` says so the run under way is asked to end: the measurement is then KILLED.
// InputError when the log cannot be written.
Measurement measure_series(ChildSpec spec, std::ostream& out, SeriesDisplay display,
                           const std::function<bool()>& interrupted);

}  // namespace sftbench
