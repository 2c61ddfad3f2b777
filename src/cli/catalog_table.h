// Tables of what is known (models, gpus, experiments): the rows that match a word, in an order.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sftbench/results/table.h"

namespace sftbench {

struct CatalogTableOptions {
  std::string word;  // NAME: one in full, or rows that have it
  std::string sort;  // --sort: a column; empty: the catalog's order
  std::string format = "table";
};

void add_catalog_table_options(CLI::App& command, const std::string& word_name,
                               const std::string& help, CatalogTableOptions& options);

// The rows of which a text contains the word; letter case, spaces, dashes and underscores do not
// matter.
Table rows_with(const std::string& word, Table table);

// Smallest first, texts by alphabet, empty cells last. InputError for an unknown column.
void sort_rows(const std::string& column, Table& table);

}  // namespace sftbench
