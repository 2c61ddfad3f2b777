// Of a prediction on several GPUs: what it would be with its rows divided among more or fewer of them.
#pragma once

#include "cli/definition_list.h"
#include "sftbench/advise/row_divisions.h"
#include "sftbench/base/json.h"

namespace sftbench {

// Where that is a question: on several GPUs, if rows are divided already or the configuration does not fit.
bool asks_for_divisions(const Prediction& prediction);

// "context_parallel", a line for each: memory, verdict, throughput, or why not. Then the best of them.
void put_divisions(const std::vector<RowDivision>& divisions, Definitions& lines, Json& json);

}  // namespace sftbench
