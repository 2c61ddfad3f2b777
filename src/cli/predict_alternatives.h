// Beside a prediction: what makes it fit.
#pragma once

#include "cli/definition_list.h"
#include "sftbench/advise/memory_switches.h"
#include "sftbench/base/json.h"

namespace sftbench {

// "less memory", a line for each switch, and "to fit": what is enough together.
void put_switches(const std::vector<MemorySwitch>& switches,
                  const std::optional<MemorySwitch>& enough, Definitions& lines, Json& json);

}  // namespace sftbench
