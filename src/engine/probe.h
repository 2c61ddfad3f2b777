// What this machine's processors reach, measured with the operators that train: what `doctor --probe`
// keeps for `predict` (advise/probed_machine.h says what the members are).
#pragma once

#include "sftbench/base/json.h"

namespace sftbench {

// {threads, dtypes: {NAME: {products, head_flops_per_s, attention, element_bytes_per_s}},
// memory_bytes_per_s, launch_s}. Takes about half a minute on two cores.
Json probe_processors();

// {ranks, latency_s, bytes_per_s} of two ranks over Gloo on this machine, or {problem}. Forks:
// before anything that may start threads.
Json probe_collectives();

}  // namespace sftbench
