// What no operator alone shows, fitted to the small runs of a probe (plan/probe_jobs.h) by least
// squares of relative errors:
//
//   compute = scale x (products, attention, elements) + launch_s x launches. One fit is of models
//             whose weights have gradients, another of models whose weights are frozen
//   update  = bytes / memory_bytes_per_s
//   rest    = step_s
#pragma once

#include <functional>

#include "sftbench/advise/probed_machine.h"

namespace sftbench {

// `passes`: [[{compute_s, update_s, rest_s}, ...], ...], each in the order of probe_jobs().
// `alone`: what operators alone reach, for one of these jobs. Json::exception where `passes` has
// other members.
ProbeFit fit_to_runs(ParameterDtype dtype, const Json& passes,
                     const std::function<MachineModel(const TrainingJob&)>& alone);

}  // namespace sftbench
