// What an entry is where nothing says it.
#pragma once

#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

// The property that would say it, as TextDatasetOptions has it. An empty `property`: a text under
// the usual field.
struct FoundForm {
  std::string property;  // "pretokenized", "conversation_column" or "data_formatter_template"
  std::string value;     // of the latter two
  std::string sentence;  // "the entries are conversations (messages)"
};

// By the columns of the first entry: ids, conversations, Alpaca's or trl's columns. False and
// `error` for entries that are made for another kind of training, such as preferences.
bool find_entry_form(const Json& entry, FoundForm& form, Diagnostic& error);

}  // namespace sftbench
