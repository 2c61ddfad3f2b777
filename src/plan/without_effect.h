// Settings that change nothing in an entity.
#pragma once

#include <string>
#include <vector>

#include "plan/request_reader.h"

namespace sftbench {

// Notes what the request gives and the resolved job does not look at. Those of data are noted where
// data are resolved (plan/resolve_data.h).
void note_what_has_no_effect(const RequestReader& request, const TrainingJob& job,
                             std::vector<std::string>& notes);

}  // namespace sftbench
