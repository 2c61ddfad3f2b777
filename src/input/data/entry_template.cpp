#include "sftbench/data/entry_template.h"

#include <algorithm>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '-' || c == '.' || c == ' ' || (c >= '\t' && c <= '\r');
}

// The placeholder that begins at `at`: its name; empty where none does.
std::string placeholder_at(const std::string& text, size_t at) {
  if (text.compare(at, 2, "{{") != 0) return {};
  size_t end = at + 2;
  while (end < text.size() && is_name_character(text[end])) ++end;
  return text.compare(end, 2, "}}") == 0 ? text.substr(at + 2, end - at - 2) : std::string();
}

const char* kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  return value.is_array() ? "a list" : "an object";
}

}  // namespace

std::vector<std::string> keys_of(const Json& entry) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entry.items()) keys.push_back(key);
  return keys;
}

bool is_named_form(const std::string& entry_template) {
  return entry_template == kAlpacaForm || entry_template == kPromptCompletionForm;
}

EntryTemplate::EntryTemplate(const std::string& text) {
  if (is_named_form(text)) {
    name_ = text;
    fields_ = text == kAlpacaForm ? std::vector<std::string>{"instruction", "input", "output"}
                                  : std::vector<std::string>{"prompt", "completion"};
    return;
  }
  Part part;
  for (size_t at = 0; at < text.size();) {
    part.field = placeholder_at(text, at);
    if (part.field.empty()) {
      part.literal += text[at++];
      continue;
    }
    at += part.field.size() + 4;
    if (std::find(fields_.begin(), fields_.end(), part.field) == fields_.end())
      fields_.push_back(part.field);
    parts_.push_back(std::move(part));
    part = {};
  }
  if (!part.literal.empty()) parts_.push_back(std::move(part));
}

bool EntryTemplate::has_open_field() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    const size_t open = part.literal.find("{{");
    return open != std::string::npos && open + 2 < part.literal.size() &&
           is_name_character(part.literal[open + 2]);
  });
}

bool EntryTemplate::fill_alpaca(const Json& entry, std::string& text, std::string& response,
                                Diagnostic& error) const {
  std::string instruction, input;
  if (!text_of_field(entry, "instruction", instruction, error) ||
      !text_of_field(entry, "output", response, error)) {
    return false;
  }
  const auto found = entry.find("input");
  const bool has_input = found != entry.end() && !found->is_null();
  if (has_input && !text_of_field(entry, "input", input, error)) return false;
  const std::string described = "Below is an instruction that describes a task";
  const std::string complete = ". Write a response that appropriately completes the request.\n\n";
  text = described + (input.empty() ? "" : ", paired with an input that provides further context") +
         complete + "### Instruction:\n" + instruction + "\n\n";
  if (!input.empty()) text += "### Input:\n" + input + "\n\n";
  text += "### Response:";
  return true;
}

bool EntryTemplate::fill(const Json& entry, std::string& text, std::string& response,
                         Diagnostic& error) const {
  if (name_ == kAlpacaForm) return fill_alpaca(entry, text, response, error);
  if (!name_.empty()) {
    return text_of_field(entry, "prompt", text, error) &&
           text_of_field(entry, "completion", response, error);
  }
  text.clear();
  std::string value;
  for (const Part& part : parts_) {
    text += part.literal;
    if (part.field.empty()) continue;
    const bool spaced = !entry.contains(part.field);
    const std::string field = spaced ? std::string(trimmed(part.field)) : part.field;
    if (!text_of_field(entry, field, value, error)) {
      error.message += ", which the template asks for";
      return false;
    }
    text += value;
  }
  return true;
}

bool text_of_field(const Json& entry, const std::string& field, std::string& text,
                   Diagnostic& error) {
  const auto found = entry.find(field);
  if (found != entry.end() && found->is_string()) {
    text = found->get<std::string>();
    return true;
  }
  error = {};
  error.key = field;
  if (found != entry.end()) {
    error.message = std::string("the field is ") + kind_of(*found);
    error.expected = "a string";
    return false;
  }
  const std::vector<std::string> keys = keys_of(entry);
  error.message = keys.empty() ? "no such field; the object is empty"
                               : "no such field; found " + join_some(keys);
  error.nearest = nearest_spelling(field, keys);
  return false;
}

}  // namespace sftbench
