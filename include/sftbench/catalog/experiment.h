// An experiment as data: the table of its properties, what it hard-codes and what it measures.
// What the documents fix, users may still want to change: arguments are properties, too, but inputs
// of a measurement only where they differ from what the documents fix.
// The property table of experiments/<id>.yaml is the only place where a property is described:
// parsing, --set, help, validation, expansion and JSON output all read it. A file that is
// `based_on` another one says only what differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/base/yaml.h"
#include "sftbench/variants/tuning_method.h"

namespace sftbench {

enum class PropertyKind {
  kString,
  kInteger,
  kNumber,
  kBoolean,
  kStringList,
  kModuleNames,
  kObject
};
std::string_view to_string(PropertyKind kind);
// Nothing: no kind has this name.
std::optional<PropertyKind> find_property_kind(std::string_view name);

// A text as a property holds it, escaped: line ends, tabs and carriage returns as \n, \t and \r.
// And as Python's unicode_escape reads it back: those, \\, quotes, \xNN, \uNNNN. What is no escape
// stays.
std::string escaped_text(std::string_view text);
std::string unescaped_text(std::string_view text);

// A text of which each character counts, Jinja's backslashes among them, in one line: one that has
// control characters stands behind a mark, with those and its backslashes escaped. And that text
// again.
std::string one_line_text(std::string_view text);
std::string whole_text(std::string_view text);

// A grid of numbers: lower, lower + interval, ... below upper. Interval 0: every number between
// them.
struct NumberRange {
  double lower = 0;
  double upper = 0;  // exclusive
  double interval = 1;
};

struct PropertySpec {
  std::string identifier;
  PropertyKind kind = PropertyKind::kString;
  bool required = false;
  bool nullable = false;            // None is a legal value
  bool without_effect = false;      // ado takes it, and the experiment trains the same: no input
  bool open = false;                // values that are not in `values` are legal, too
  bool escaped = false;             // a text whose line ends and tabs are written \n and \t
  bool one_line = false;            // a text that may have line ends: one_line_text() of it
  bool argument = false;            // an input only where it differs from its default
  Json default_value;               // null for None and for required properties
  std::vector<std::string> values;  // legal texts; for string lists: of their elements
  bool numbered = false;            // 1, 2, ... stand for `values` in their order
  std::string values_from;          // "models" or "gpus": `values` are the names of that catalog
  std::optional<NumberRange> range;
  bool zero_is_invalid =
      false;           // 0 is taken, too: a rule makes the entity invalid (space/validity.h)
  int64_t length = 0;  // string lists: number of elements
  std::string unit;
  std::string help;

  // `found` as a value of this property, or nothing when it is outside the domain. Numbers keep the
  // type that they were written with (2 or 2.0), since ado's identifiers show it; numbers written
  // as 1e3, and `no`/`on` where the text itself is legal, are taken by their meaning.
  std::optional<Json> accept(const YamlNode& found) const;

  // The same value in the one form that results are keyed by: integers as integers, numbers as
  // floats, booleans as true/false, the text None as null, a GPU by its product's name.
  Json canonical(const Json& value) const;

  // "an integer from 1 to 4096", "one of a, b, c or None".
  std::string expectation() const;
};

struct MeasuredProperty {
  std::string identifier;
  std::string unit;
  std::string help;
};

struct Experiment {
  std::string identifier;  // finetune_full_benchmark-v1.0.0
  std::string actuator;    // SFTTrainer
  TuningMethod tuning = TuningMethod::kFull;
  std::string summary;
  int64_t runs = 1;                        // training runs that make up one measurement
  std::vector<std::string> aliases;        // other spellings that the documents use
  std::vector<PropertySpec> properties;    // required ones first, in the documents' order
  std::vector<PropertySpec> arguments;     // what the documents fix and a user may change
  Json hardcoded;                          // name -> value
  std::vector<MeasuredProperty> measured;  // in ado's order

  // Among properties and arguments. nullptr when there is none of this name.
  const PropertySpec* find(std::string_view property) const;
  std::vector<std::string> property_names() const;
  std::vector<std::string> names() const;  // of properties and arguments
};

// experiments/<id>.yaml, and beside it the file that it is based on. `model_names` and `gpu_names`
// are the values of properties that say `values_from`. InputError with everything that is wrong
// with the file.
Experiment read_experiment(const std::string& path, const std::vector<std::string>& model_names,
                           const std::vector<std::string>& gpu_names);

}  // namespace sftbench
