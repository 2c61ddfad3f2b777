// Linears that adapters go to, where the catalog does not say it.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// Whole names of the linears that a regular expression matches from end to end, as peft takes a
// target_modules that is a text. RunError(kUnsupported): it is none, matches no linear, or takes
// too long.
std::vector<std::string> linears_that_match(const Json& hf_config, const std::string& expression);

// What peft takes for a family where nothing is said; for those that it knows nothing of, what the
// documents take. RunError(kUnsupported) where neither does.
std::vector<std::string> usual_targets(const std::string& model, const std::string& family);

}  // namespace sftbench
