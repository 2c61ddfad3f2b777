// One record in full, on stdout: as prose for people, as an object, or as a table of its keys.
#pragma once

#include <string>

#include "sftbench/results/table.h"

namespace sftbench {

void print_record(const std::string& prose, const Json& object, OutputFormat format);

}  // namespace sftbench
