// What commands print on stdout.
#pragma once

#include <string>
#include <vector>

#include "sftbench/results/table.h"

namespace sftbench {

// Within the columns of the terminal, if stdout is one.
void print_table(const Table& table, OutputFormat format);

// One record in full: as prose for people, as an object, or as a table of its keys.
void print_record(const std::string& prose, const Json& object, OutputFormat format);

}  // namespace sftbench
