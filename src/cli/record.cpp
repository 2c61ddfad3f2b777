#include "cli/record.h"

#include <unistd.h>

#include <iostream>

#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {

void print_table(const Table& table, OutputFormat format) {
  std::cout << render(table, format, terminal_columns(STDOUT_FILENO)) << std::flush;
}

void print_record(const std::string& prose, const Json& object, OutputFormat format) {
  if (format == OutputFormat::kTable) {
    std::cout << terminal_text(prose);
  } else if (format == OutputFormat::kJson) {
    std::cout << json_text(object, 2) << '\n';
  } else if (format == OutputFormat::kJsonLines) {
    std::cout << json_text(object) << '\n';
  } else {
    Table table{{"key", "value"}, {}};
    for (const auto& [key, value] : object.items()) table.rows.push_back({key, value});
    print_table(table, format);
  }
}

}  // namespace sftbench
