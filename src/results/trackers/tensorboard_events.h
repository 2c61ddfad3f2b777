// The events that TensorBoard reads, as records of an event file. Field numbers are those of
// tensorboard/compat/proto/{event,summary}.proto and
// tensorboard/plugins/hparams/{api,plugin_data}.proto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// The first record of a file.
std::string version_event(double wall_s);

// What older files of the run have from `step` on does not count: the run begins there.
std::string session_start_event(double wall_s, int64_t step);

std::string scalar_event(double wall_s, int64_t step, const std::string& tag, double value);

// The plugin "hparams": which inputs and figures there are, the values of the inputs, the end.
std::string experiment_event(double wall_s, const Json& inputs,
                             const std::vector<std::string>& metric_tags);
std::string run_inputs_event(double wall_s, const Json& inputs, const std::string& group);
std::string run_end_event(double wall_s, bool succeeded);

}  // namespace sftbench
