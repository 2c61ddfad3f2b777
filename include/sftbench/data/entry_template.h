// data_formatter_template of fms-hf-tuning: a text with {{name}} where an entry's fields go. Or the
// name of a form that many data have, whose prompt bears no loss:
//   alpaca             instruction, input and output, in Stanford Alpaca's prompt (PROMPT_DICT)
//   prompt_completion  prompt and completion, one behind the other, as trl has them
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

  // Whether "{{" stands before what could be a name, and nothing closes it: "{{input}".
  bool has_open_field() const;

  // The text of an entry; of a form with a name its prompt, and the response to it. False and
  // `error` (its message) where a field is missing or no text.
  bool fill(const Json& entry, std::string& text, std::string& response, Diagnostic& error) const;

 private:
  struct Part {
    std::string literal;
    std::string field;  // behind it; empty: none
  };
  bool fill_alpaca(const Json& entry, std::string& text, std::string& response,
                   Diagnostic& error) const;

  std::string name_;  // of a form; empty: `parts_`
  std::vector<Part> parts_;
  std::vector<std::string> fields_;
};

inline constexpr const char* kAlpacaForm = "alpaca";
inline constexpr const char* kPromptCompletionForm = "prompt_completion";

bool is_named_form(const std::string& entry_template);

std::vector<std::string> keys_of(const Json& entry);

// The text under `field`. False and `error` where there is none, `entry` has another type there.
bool text_of_field(const Json& entry, const std::string& field, std::string& text,
                   Diagnostic& error);

}  // namespace sftbench
