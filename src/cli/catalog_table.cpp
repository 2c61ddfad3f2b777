#include "cli/catalog_table.h"

#include <algorithm>
#include <cctype>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

std::string letters_of(const std::string& text) {
  std::string letters;
  for (const char c : text) {
    if (c != ' ' && c != '-' && c != '_')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

void add_catalog_table_options(CLI::App& command, const std::string& word_name,
                               const std::string& help, CatalogTableOptions& options) {
  command.add_option(word_name, options.word, help + "; or a part of it: the rows that have it");
  command.add_option("--sort", options.sort, "column that orders the rows, smallest first")
      ->type_name("COLUMN");
  command.add_option("--format", options.format, "table, json, jsonl, csv or md")
      ->capture_default_str();
}

Table rows_with(const std::string& word, Table table) {
  const std::string wanted = letters_of(word);
  std::erase_if(table.rows, [&wanted](const std::vector<Json>& row) {
    return std::none_of(row.begin(), row.end(), [&wanted](const Json& cell) {
      return cell.is_string() &&
             letters_of(cell.get<std::string>()).find(wanted) != std::string::npos;
    });
  });
  return table;
}

void sort_rows(const std::string& column, Table& table) {
  if (column.empty()) return;
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  if (found == table.columns.end()) {
    throw InputError({{{},
                       0,
                       "--sort",
                       "unknown column '" + column + "'",
                       "one of " + join(table.columns),
                       nearest_spelling(column, table.columns)}});
  }
  const auto place = static_cast<size_t>(found - table.columns.begin());
  std::stable_sort(table.rows.begin(), table.rows.end(), [place](const auto& a, const auto& b) {
    const bool both = !a[place].is_null() && !b[place].is_null();
    return both ? a[place] < b[place] : !a[place].is_null() && b[place].is_null();
  });
}

}  // namespace sftbench
