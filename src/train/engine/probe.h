// What this machine's processors reach, measured with the operators that train: what `doctor
// --probe` keeps for `predict` (advise/probed_machine.h says what the members are).
#pragma once

#include "sftbench/base/json.h"
#include "sftbench/variants/precision.h"

namespace sftbench {

// {threads, dtypes: {NAME: {products, head, attention, element_bytes_per_s, runs}},
// memory_bytes_per_s}. Takes about a minute on two cores.
Json probe_processors();

// [{compute_s, update_s, rest_s} of a step, the median, for each of plan/probe_jobs.h].
Json probe_training(ParameterDtype dtype);

// {ranks, all_gather: TIMES, reduce_scatter: {bfloat16: TIMES, float32: TIMES}} of two ranks over
// Gloo on this machine, or {problem}. TIMES is {idle: LINK, busy: LINK}, of ranks that wait and of
// ranks that compute meanwhile. LINK is {latency_s, bytes_per_s}. Forks: before anything that may
// start threads.
Json probe_collectives();

}  // namespace sftbench
