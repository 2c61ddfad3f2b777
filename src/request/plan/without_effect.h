// Settings that change nothing in an entity.
#pragma once

#include <string>
#include <vector>

#include "plan/request_reader.h"

namespace sftbench {

// Notes what the request gives and its job does not look at. `family`: the model's, empty where it
// is not known.
void note_what_has_no_effect(const RequestReader& request, const std::string& family,
                             std::vector<std::string>& notes);

}  // namespace sftbench
