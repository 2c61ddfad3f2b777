// The property data_mixture, as people and data configurations give it.
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// Its sets, each an object with training_data_path. RunError(kData) with what is wrong: shares that
// do not add up to 1 or that only some sets have, properties that a set does not have.
const Json& mixture_sets(const Json& mixture);

// Where the value of a set's property goes (plan/data_sets.h). REQUIRES: mixture_sets() took it.
std::string mixture_field(const std::string& property);

}  // namespace sftbench
