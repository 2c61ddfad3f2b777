// What --model, --arguments and the training arguments' options say beside a space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/given_data.h"
#include "cli/model_folder.h"
#include "cli/selection.h"
#include "sftbench/space/space.h"
#include "sftbench/translate/argument_file.h"

namespace sftbench {

// So that it is found by its name, for every format of weights. REQUIRES: it has one.
void add_to_model_map(const OwnModel& model, ActuatorSettings& settings);

struct OwnTraining {
  OwnModel model;
  std::string experiment;          // that is asked for, or follows from the rest
  std::vector<GivenValue> values;  // beside --set
  ArgumentFile file;
  bool fits_batch = false;  // batch_size among the values is to grow to what GPUs hold
};

// Values of --arguments give way to those of options and of --set. Without a space and with a model
// or data of one's own, what is required and not said has a default, which is logged. Datasets of
// the hub are looked for, and fetched where they may be, because their entries say of what form
// they are. InputError.
OwnTraining own_training(const Selection& selection, const DataSearch& search);

// --ranks, or what --arguments says of CPUs.
int64_t cpu_ranks(const Selection& selection, const ArgumentFile& file);

}  // namespace sftbench
