// data_formatter_template of fms-hf-tuning: a text with {{name}} where an entry's fields go.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

// A placeholder is {{name}}, name being letters, digits, spaces and _ - . alone; any other brace
// stands for itself. Spaces around a name are left out where no field has them.
class EntryTemplate {
 public:
  explicit EntryTemplate(const std::string& text);

  // Names of the fields that it asks for, each once.
  const std::vector<std::string>& fields() const { return fields_; }

  // The text of an entry. False and `error` (its message) where a field is missing or no text.
  bool fill(const Json& entry, std::string& text, Diagnostic& error) const;

 private:
  struct Part {
    std::string literal;
    std::string field;  // behind it; empty: none
  };
  std::vector<Part> parts_;
  std::vector<std::string> fields_;
};

// The text under `field`. False and `error` where there is none, `entry` has another type there.
bool text_of_field(const Json& entry, const std::string& field, std::string& text,
                   Diagnostic& error);

}  // namespace sftbench
