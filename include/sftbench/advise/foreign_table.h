// Tables that others measured, as evidence. Each row becomes evidence or is left out with a reason;
// nothing is guessed. Layouts:
//
//   ado               what `ado show entities` writes, both property formats (one row for an
//                     experiment, or columns named EXPERIMENT-PROPERTY), and tables with the same
//                     words: identifier and experiment_id may hold properties, `method` names the
//                     experiment, tokens_per_sample is model_max_length
//   fms-acceleration  scripts/benchmarks/refs/*.csv of foundation-model-stack/fms-acceleration
//   csv               any other, by `map`
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sftbench/advise/evidence.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {

// The values of --as.
const std::vector<std::string>& foreign_layouts();

struct ImportOptions {
  std::string layout;
  std::string stack;  // what was measured
  // Property, experiment, tokens_per_second, allocated_bytes or is_valid -> column.
  std::map<std::string, std::string> columns;
  // Property or experiment -> value of all rows that do not say another.
  std::map<std::string, std::string> constants;
  std::vector<std::string> extra_models;  // names that the actuator's model_map adds
};

struct LeftOutRow {
  int64_t line = 0;  // of the file
  std::string reason;
};

struct ImportedTable {
  std::vector<Evidence> rows;
  std::vector<LeftOutRow> left_out;
  std::vector<std::string> unused;  // columns that nothing was taken from
};

// InputError for a file that is no such table: no header, a column of `columns` that is not there,
// a value of `constants` outside its domain, an unknown layout.
ImportedTable import_table(const std::string& path, const ImportOptions& options,
                           const Catalog& catalog);

}  // namespace sftbench
