// Data of one's own, in place of a named dataset.
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// "pairs" of ./data/pairs.jsonl.
std::string own_dataset_name(const std::string& path);

// Replaces `training_data_path`, if it is among the inputs: the dataset has its file's name, and a
// digest of the content tells it from others of that name, wherever it lies.
void name_own_data(Json& inputs);

}  // namespace sftbench
