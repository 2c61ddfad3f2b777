// One row of a foreign table on its way to evidence: values by the names of this program.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sftbench/advise/evidence.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {

// Why a row is left out.
struct Misfit {
  std::string reason;
};

// What a layout finds in a row. Texts as they stand there; an empty one is not known.
struct ForeignRow {
  std::string experiment;  // identifier, its beginning, or a tuning method
  std::map<std::string, std::string> properties;
  std::string stack;  // empty: the one of the whole table
  std::optional<bool> is_valid;
  std::optional<double> tokens_per_second;
  std::optional<double> allocated_bytes;
};

// A positive number. Misfit naming `what` for a text that is none; nothing for an empty text.
std::optional<double> figure_of(const std::string& what, const std::string& text);

// Turns rows into evidence: experiments and values in their domains, rules kept. Remembers what it
// has checked, since tables say the same things over and over.
class RowPlacer {
 public:
  RowPlacer(const Catalog& catalog, std::vector<std::string> extra_models)
      : catalog_(catalog), extra_models_(std::move(extra_models)) {}

  // Misfit for a row that cannot be placed.
  Evidence place(const ForeignRow& row);

  // The experiment of an identifier, of a tuning method (full, lora, gptq-lora, pt), or of the one
  // identifier that begins so. nullptr: there is none.
  const Experiment* experiment(const std::string& name) const;

 private:
  const Json& value(const Experiment& experiment, const std::string& property,
                    const std::string& text);

  const Catalog& catalog_;
  std::vector<std::string> extra_models_;
  std::unordered_map<std::string, Json> known_;  // experiment, property and text
};

}  // namespace sftbench
