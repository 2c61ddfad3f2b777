// Rows for people and for programs: one table, five ways to write it. Every command that prints
// records prints them through this, so that --format means the same everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

enum class OutputFormat { kTable, kJson, kJsonLines, kCsv, kMarkdown };

// "table", "json", "jsonl", "csv", "md": the values of --format, in the order of the enumeration.
const std::vector<std::string>& output_format_names();

// InputError with the nearest spelling when there is no format of that name.
OutputFormat output_format(std::string_view name);

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Json>> rows;  // as many cells as columns; null: nothing to show
};

// Ends with a line end unless it is empty.
//   table  columns padded with spaces, numbers to the right and shortened to 6 digits. `columns` is
//          the width of a terminal, and 0 means no limit. Texts and headings of a wider table go on
//          in further lines. Columns without room even so stand in blocks under each other.
//   json   an array of objects; jsonl: one object per line; null stays null
//   csv    RFC 4180 with a header line; null is an empty field; numbers in full
//   md     a GitHub table
std::string render(const Table& table, OutputFormat format, size_t columns = 0);

// A cell as people read it: texts without quotes, numbers with at most 6 significant digits,
// lists and objects as JSON, null as nothing.
std::string cell_text(const Json& cell);

}  // namespace sftbench
