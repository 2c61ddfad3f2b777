// The rows that `expand` prints: written as text while they come, so that a space of millions
// begins at once and needs no memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/table.h"
#include "sftbench/space/validity.h"

namespace sftbench {

struct EntityRow {
  int64_t index = 0;
  std::string_view entity_id;
  std::string_view experiment_id;
  // The first one is the reason that a result would give; one that no rule of the documents says is
  // what this version cannot do.
  std::vector<Violation> violations;
};

// Writes to the standard output. InputError when that takes no more.
class EntityRows {
 public:
  virtual ~EntityRows() = default;
  virtual void add(const EntityRow& row) = 0;
  virtual void finish() = 0;  // once, after the last row
};

// `with_experiment`: people's formats (table, md) name the experiment only where there are several.
std::unique_ptr<EntityRows> entity_rows(OutputFormat format, bool with_experiment);

}  // namespace sftbench
