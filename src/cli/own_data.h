// The data that training arguments name, as far as their first entries tell.
#pragma once

#include <string>

#include "cli/given_arguments.h"
#include "cli/given_data.h"
#include "cli/selection.h"

namespace sftbench {

// Where a value comes from that trl has and its file does not say.
inline constexpr const char* kDefaultOfTrl = "the default of trl";

// Adds what the first entries say of their form, and refuses what they show to be wrong
// (InputError). `model_folder`: of a model of one's own, whose chat templates may be named; may be
// empty. Whether a part of the data is held out.
bool check_own_data(GivenArguments& given, const Selection& selection, const DataSearch& search,
                    const std::string& model_folder);

}  // namespace sftbench
