// A table of many rows, column by column: what a report of a hundred thousand results is written
// from. `Table` (table.h) is its counterpart for the few rows that people read.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/scalar.h"
#include "sftbench/results/table.h"

namespace sftbench {

struct ReportColumn {
  std::string name;
  std::vector<Scalar> cells;  // as many as the table has rows
};

struct ReportTable {
  std::vector<ReportColumn> columns;
  size_t rows = 0;
  std::deque<std::string> texts;  // that cells look at and the scan does not keep

  // Keeps a text for cells.
  Scalar text(std::string text) { return Scalar::text(texts.emplace_back(std::move(text))); }

  // A column that no row has a value for says nothing: behind the first `kept` it is left out.
  void drop_empty_columns(size_t kept = 0);
};

// As pandas' to_csv writes a frame: first a column without a name that counts the rows, fields in
// quotes only where they must be, floats as Python's repr, nothing for null. Calls `write` with
// pieces of some megabytes, in order; made on all cores.
void write_csv(const ReportTable& table, const std::function<void(std::string_view)>& write);

// For people and for JSON, without the counting column.
Table to_table(const ReportTable& table);

}  // namespace sftbench
