// Data of one's own, in place of a named dataset.
#pragma once

#include <optional>
#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// "pairs" of ./data/pairs.jsonl, and of a folder ./pairs/. "ORG/NAME:CONFIG" of a dataset of the
// hub, by its name or by the path of its snapshot.
std::string own_dataset_name(const std::string& given);

// Replaces `training_data_path`, if it is among the inputs: the dataset has its file's name, and a
// digest of the content tells it from others of that name, wherever it lies.
// A chat template that is given as a file becomes a digest, too, as does validation_data_path.
void name_own_data(Json& inputs, const std::optional<std::string>& hf_home);

// The template that `given` is or that its file holds; nothing given: the tokenizer's own.
// RunError(kData) where there is none.
std::string chat_template(const std::string& given, const std::string& tokenizer_directory);

}  // namespace sftbench
