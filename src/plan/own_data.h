// Data of one's own, in place of a named dataset.
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// "pairs" of ./data/pairs.jsonl, and of a folder ./pairs/.
std::string own_dataset_name(const std::string& path);

// Replaces `training_data_path`, if it is among the inputs: the dataset has its file's name, and a
// digest of the content tells it from others of that name, wherever it lies.
// A chat template that is given as a file becomes a digest, too, as does validation_data_path.
void name_own_data(Json& inputs);

// The template that `given` is or that its file holds; nothing given: the tokenizer's own.
// RunError(kData) where there is none.
std::string chat_template(const std::string& given, const std::string& tokenizer_directory);

}  // namespace sftbench
