// The user's data in what a recommendation answers: its export, its inputs, and the command that
// measures it.
#pragma once

#include <string>

#include "cli/dataset_forms.h"
#include "cli/dataset_lengths.h"
#include "sftbench/base/json.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

void put_own_data(const std::string& given, const CountedData& data, DataSource& source);

// The properties that `run` takes the same data by, in place of the experiment's dataset.
void put_own_inputs(const DatasetForms& forms, const CountedData& data, Json& inputs);

// " --data FILE ...", as `run` takes what was given. `config`: --config, or empty.
std::string words_of_data(const DatasetForms& forms, const std::string& config);

}  // namespace sftbench
