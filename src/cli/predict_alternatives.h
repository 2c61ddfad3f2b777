// Beside a prediction: what it would be with its rows divided among more or fewer GPUs, and what makes it fit.
#pragma once

#include "cli/definition_list.h"
#include "sftbench/advise/memory_switches.h"
#include "sftbench/advise/row_divisions.h"
#include "sftbench/base/json.h"

namespace sftbench {

// Where that is a question: on several GPUs, if rows are divided already or the configuration does not fit.
bool asks_for_divisions(const Prediction& prediction);

// "context_parallel", a line for each: memory, verdict, throughput, or why not. Then the best of them.
void put_divisions(const std::vector<RowDivision>& divisions, Definitions& lines, Json& json);

// "less memory", a line for each switch, and "to fit": what is enough together.
void put_switches(const std::vector<MemorySwitch>& switches,
                  const std::optional<MemorySwitch>& enough, Definitions& lines, Json& json);

}  // namespace sftbench
