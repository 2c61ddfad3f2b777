// The experiments of a space and their parameters.
#pragma once

#include <string>
#include <vector>

#include "space/space_names.h"

namespace sftbench {

// A list of references, or whole experiments as ado stores them. What is wrong or worth a warning
// goes into `diagnostics`. An experiment that is listed twice is taken once.
std::vector<ExperimentReference> read_experiment_list(const YamlNode& node, const std::string& path,
                                                      AdoIds ids, SpaceNames& names,
                                                      Diagnostics& diagnostics);

// Whatever the order of the parameters is.
bool is_same(ExperimentReference a, ExperimentReference b);

}  // namespace sftbench
