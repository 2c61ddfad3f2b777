#include "cli/recommended_data.h"

#include <filesystem>
#include <utility>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

bool is_generated(const DatasetForms& forms) {
  return forms.dataset.find_first_of("/.") == std::string::npos;
}

}  // namespace

void put_own_data(const std::string& given, const CountedData& data, DataSource& source) {
  std::error_code error;
  const bool here = fs::exists(given, error);  // else a dataset of the hub, or a generated one
  source.dataset_id = here ? fs::path(data.path).filename().string() : given;
  source.path = data.path;
  source.pretokenized = data.options.pretokenized;
  source.conversation_field = data.options.conversation_field;
  source.chat_template = data.options.chat_template.text;
  source.entry_template = data.options.entry_template;
  source.input_field = data.options.input_field;
  source.output_field = data.options.output_field;
  source.text_field = data.options.text_field;
  source.response_template = data.options.response_template;
}

std::string words_of_data(const DatasetForms& forms, const std::string& config) {
  std::string words;
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words += std::string(" ") + option + " " + shell_quoted(value);
  };
  add("--config", config);
  if (forms.dataset.empty()) return words;
  const bool generated = is_generated(forms);
  add(generated ? "--set" : "--data", (generated ? "dataset_id=" : "") + forms.dataset);
  if (forms.text_field->count() > 0) add("--text-field", forms.options.text_field);
  add("--template", forms.entry_template);
  add("--conversation-column", forms.options.conversation_field);
  add("--chat-template", forms.chat_template);
  add("--input-column", forms.options.input_field);
  add("--output-column", forms.options.output_field);
  if (forms.response_template != DatasetForms().response_template)
    add("--response-template", forms.response_template);
  if (forms.mask != DatasetForms().mask) add("--mask", forms.mask);
  add("--tokenizer", forms.tokenizer);
  return words;
}

void put_own_inputs(const DatasetForms& forms, const CountedData& data, Json& inputs) {
  const bool generated = is_generated(forms);
  if (generated) {
    inputs["dataset_id"] = forms.dataset;
    return;
  }
  inputs.erase("dataset_id");
  inputs["training_data_path"] = data.path;
  if (data.options.pretokenized) inputs["pretokenized"] = true;
  const std::pair<const char*, std::string> texts[] = {
      {"dataset_text_field", forms.text_field->count() > 0 ? data.options.text_field : ""},
      {"data_formatter_template", forms.entry_template},
      {"conversation_column", data.options.conversation_field},
      {"chat_template", forms.chat_template},
      {"input_column_name", data.options.input_field},
      {"output_column_name", data.options.output_field},
      {"tokenizer_name_or_path", forms.tokenizer}};
  for (const auto& [property, text] : texts)
    if (!text.empty()) inputs[property] = text;
  if (forms.response_template != DatasetForms().response_template)
    inputs["response_template"] = forms.response_template;
}

}  // namespace sftbench
