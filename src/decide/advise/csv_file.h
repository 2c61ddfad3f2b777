// A CSV file (RFC 4180): a header, and the cells of each row as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sftbench {

struct CsvRow {
  int64_t line = 0;  // on which it begins, 1-based
  std::vector<std::string> cells;
};

struct CsvFile {
  std::vector<std::string> header;
  std::vector<CsvRow> rows;  // blank lines left out
};

// InputError with file and line: no header, a name that stands twice in it, a quote that never
// ends. Rows may have more or fewer cells than the header.
CsvFile read_csv(const std::string& path);

}  // namespace sftbench
