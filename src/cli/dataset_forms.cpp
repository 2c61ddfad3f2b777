#include "cli/dataset_forms.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/data/entry_form.h"
#include "sftbench/data/entry_template.h"

namespace sftbench {
namespace {

ChatTemplateText template_of(const DatasetForms& arguments) {
  const std::string& given = arguments.chat_template;
  if (jinja::is_template(given)) return {given, "--chat-template"};
  ChatTemplateText own;
  if (!arguments.tokenizer.empty()) own = chat_template_of(arguments.tokenizer);
  if (!given.empty() && !own.text.empty()) {
    if (std::string named = chat_template_of(arguments.tokenizer, given); !named.empty())
      return {std::move(named), own.origin};
  }
  if (!given.empty()) return {read_chat_template(given), given};
  if (!own.text.empty()) return own;
  throw InputError(no_chat_template(arguments.tokenizer));
}

[[noreturn]] void refuse_option(std::string option, std::string message, std::string expected) {
  throw InputError({{{}, 0, std::move(option), std::move(message), std::move(expected), {}}});
}

// An entry has one form, in a run, too.
void check_forms(const DatasetForms& arguments) {
  const TextDatasetOptions& options = arguments.options;
  const bool input = !options.input_field.empty(), output = !options.output_field.empty();
  std::vector<std::string> forms;
  if (arguments.text_field->count() > 0) forms.emplace_back("--text-field");
  if (!arguments.entry_template.empty()) forms.emplace_back("--template");
  if (!options.conversation_field.empty()) forms.emplace_back("--conversation-column");
  if (input || output) forms.emplace_back(input ? "--input-column" : "--output-column");
  if (forms.size() > 1) {
    refuse_option(forms[0], "says what an entry is, and so does " + forms[1], "one of them");
  }
  if (input != output) {
    refuse_option(forms[0], "is given alone",
                  input ? "--output-column with it" : "--input-column with it");
  }
  if (input && options.input_field == options.output_field) {
    refuse_option("--output-column", "is " + options.output_field + ", as --input-column is",
                  "another column, or --text-field with one");
  }
}

}  // namespace

void add_dataset_form_options(CLI::App& command, DatasetForms& forms, const std::string& dataset) {
  const bool option = dataset.starts_with('-');
  command
      .add_option(dataset, forms.dataset,
                  "a file of JSON, JSON Lines, CSV, Parquet or Arrow, a folder of them, a dataset "
                  "of the hub that is here, or the name of a generated dataset")
      ->required(!option)
      ->type_name(option ? "FILE|DIR|ID" : "TEXT");
  command.add_option("--tokenizer", forms.tokenizer,
                     "directory with tokenizer.json (default: the tokenizer that ships)");
  forms.text_field =
      command.add_option("--text-field", forms.options.text_field, "field with the text")
          ->capture_default_str();
  command.add_option("--template", forms.entry_template,
                     "make an entry's text of its fields: '{{input}} -> {{output}}'");
  command.add_option("--conversation-column", forms.options.conversation_field,
                     "field with messages; what assistants say bears loss");
  command.add_option("--chat-template", forms.chat_template,
                     "Jinja template of conversations, its file, or the name of one of the "
                     "tokenizer's; default: the tokenizer's own");
  command
      .add_option("--mask", forms.mask,
                  "what of a conversation bears loss: what assistants say (assistant), or what "
                  "fms-hf-tuning takes for it (fms)")
      ->type_name("assistant|fms")
      ->capture_default_str();
  command.add_option("--input-column", forms.options.input_field,
                     "field that bears no loss, in front of --output-column");
  command.add_option("--output-column", forms.options.output_field,
                     "field that bears the loss, behind --input-column");
  command
      .add_option("--response-template", forms.response_template,
                  "what bears loss follows this text; None: all of an entry does")
      ->capture_default_str();
}

TextDatasetOptions options_of(const DatasetForms& forms, const Entries& file) {
  check_forms(forms);
  TextDatasetOptions options = forms.options;
  options.entry_template = unescaped_text(forms.entry_template);
  options.now = std::time(nullptr);
  options.mask = named<ConversationMask>(forms.mask);
  options.response_template =
      forms.response_template == "None" ? "" : unescaped_text(forms.response_template);
  const bool says_nothing = options.entry_template.empty() && options.input_field.empty() &&
                            options.conversation_field.empty() && forms.text_field->count() == 0;
  Json first;
  Diagnostic problem;
  FoundForm form;
  if (says_nothing && file.read_object(0, first, problem)) {
    bool found = find_entry_form(first, form, problem);
    if (found && form.property.empty() && !first.contains(options.text_field)) {
      found = text_of_field(first, options.text_field, form.sentence, problem);
      const std::string option = forms.text_field->get_name();
      problem.expected = option + " NAME";
      if (option == "--text-field")
        problem.expected += ", --template TEXT, or --input-column and --output-column NAME";
    }
    if (!found) {
      problem.file = file.path(0);
      problem.line = file.line_number(0);
      throw InputError({problem});
    }
    options.pretokenized = form.property == "pretokenized";
    if (form.property == "conversation_column") options.conversation_field = form.value;
    if (form.property == "data_formatter_template") options.entry_template = form.value;
    if (!form.sentence.empty()) spdlog::info("{}: {}", forms.dataset, form.sentence);
  }
  if (!options.conversation_field.empty()) {
    options.chat_template = template_of(forms);
  } else if (!forms.chat_template.empty()) {
    refuse_option("--chat-template", "is given, and the entries are no conversations",
                  "--conversation-column NAME with it");
  }
  return options;
}

Tokenizer tokenizer_of(const DatasetForms& forms) {
  Tokenizer tokenizer =
      forms.tokenizer.empty() ? Tokenizer::builtin() : Tokenizer::from_directory(forms.tokenizer);
  complete_special_tokens(tokenizer);
  return tokenizer;
}

void tell_account(const EncodedEntries& entries) {
  for (const std::string& warning : warnings_about(entries.account(), entries.seeks_response()))
    spdlog::warn("{}", warning);
}

}  // namespace sftbench
