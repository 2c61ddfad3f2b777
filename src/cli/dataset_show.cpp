// sftbench dataset show DATASET: the first entries as a run sees them, token by token, and which of
// them bear loss.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/given_data.h"
#include "cli/number_checks.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/experiment.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct ShowArguments {
  std::string dataset, tokenizer, format = "table";
  std::string response_template = "\\n### Response:";
  TextDatasetOptions options = {.model_max_length = 2048};
  std::string entry_template, chat_template;
  const CLI::Option* text_field = nullptr;  // whether it is given
  int64_t entries = 3, first = 0;
};

// Tokens as tokenizer.json spells them.
std::unordered_map<int64_t, std::string> spelled_tokens(const std::string& directory) {
  const fs::path folder =
      directory.empty() ? resource_directory() / "datasets" / "tokenizer" : fs::path(directory);
  const Json file = read_json_file((folder / "tokenizer.json").string());
  std::unordered_map<int64_t, std::string> tokens;
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    if (id.is_number_integer()) tokens[id.get<int64_t>()] = token;
  }
  for (const Json& added : file.value("added_tokens", Json::array()))
    tokens[added.at("id").get<int64_t>()] = added.at("content").get<std::string>();
  return tokens;
}

ChatTemplateText shown_template(const ShowArguments& arguments) {
  const std::string& given = arguments.chat_template;
  if (jinja::is_template(given)) return {given, "--chat-template"};
  if (!given.empty()) return {read_chat_template(given), given};
  ChatTemplateText own;
  if (!arguments.tokenizer.empty()) own = chat_template_of(arguments.tokenizer);
  if (!own.text.empty()) return own;
  throw InputError(no_chat_template(arguments.tokenizer));
}

[[noreturn]] void refuse_option(std::string option, std::string message, std::string expected) {
  throw InputError({{{}, 0, std::move(option), std::move(message), std::move(expected), {}}});
}

// An entry has one form, in a run, too.
void check_forms(const ShowArguments& arguments) {
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

TextDatasetOptions shown_options(const ShowArguments& arguments, const Entries& file) {
  TextDatasetOptions options = arguments.options;
  options.entry_template = unescaped_text(arguments.entry_template);
  options.now = std::time(nullptr);
  options.response_template =
      arguments.response_template == "None" ? "" : unescaped_text(arguments.response_template);
  Json first;
  Diagnostic problem;
  const bool says_nothing = options.entry_template.empty() && options.input_field.empty() &&
                            options.conversation_field.empty();
  if (says_nothing && file.read_object(0, first, problem) && first.contains("input_ids") &&
      !first.contains(options.text_field)) {
    options.pretokenized = true;
  } else if (says_nothing && first.contains(kConversationField) &&
             !first.contains(options.text_field)) {
    options.conversation_field = kConversationField;
  }
  if (!options.conversation_field.empty()) {
    options.chat_template = shown_template(arguments);
  } else if (!arguments.chat_template.empty()) {
    refuse_option("--chat-template", "is given, and the entries are no conversations",
                  "--conversation-column NAME with it");
  }
  return options;
}

Table token_table(const ShowArguments& arguments) {
  check_forms(arguments);
  Entries file = open_entries(require_dataset("dataset", arguments.dataset));
  const TextDatasetOptions options = shown_options(arguments, file);
  Tokenizer tokenizer = arguments.tokenizer.empty()
                            ? Tokenizer::builtin()
                            : Tokenizer::from_directory(arguments.tokenizer);
  complete_special_tokens(tokenizer);
  const auto tokens = spelled_tokens(arguments.tokenizer);
  TextDataset dataset(std::move(file), tokenizer, options);
  if (arguments.first >= dataset.size()) {
    throw InputError({{{},
                       0,
                       "--first",
                       "found " + std::to_string(arguments.first),
                       "an entry from 0 to " + std::to_string(dataset.size() - 1),
                       {}}});
  }
  std::vector<int64_t> entries;
  for (int64_t i = arguments.first;
       i < std::min(arguments.first + arguments.entries, dataset.size()); ++i)
    entries.push_back(i);
  dataset.encode(entries, 1);
  const std::optional<int32_t> pad = tokenizer.token_id(tokenizer.special_tokens().pad);
  Table table{{"entry", "position", "id", "token", "label", "loss"}, {}};
  for (const int64_t index : entries) {
    const EncodedEntry entry = dataset.entry(index);
    for (size_t i = 0; i < entry.input_ids.size(); ++i) {
      const int32_t id = entry.input_ids[i];
      const bool bears = static_cast<int32_t>(i) >= entry.loss_begin && id != pad;
      const int64_t label = !entry.labels.empty() ? entry.labels[i] : bears ? id : kIgnoredLabel;
      const auto token = tokens.find(id);
      table.rows.push_back({index, i, id, token == tokens.end() ? Json() : Json(token->second),
                            label, i > 0 && label != kIgnoredLabel});
    }
  }
  return table;
}

// In a table on a terminal, what bears loss is green.
void print_tokens(const Table& table, OutputFormat format) {
  const std::string text = render(table, format);
  const bool colored = format == OutputFormat::kTable && ::isatty(STDOUT_FILENO) != 0 &&
                       environment("NO_COLOR").empty();
  if (!colored) {
    std::cout << text;
    return;
  }
  std::istringstream lines(text);
  std::string line;
  const size_t loss = table.columns.size() - 1;
  for (size_t i = 0; std::getline(lines, line); ++i) {
    const bool bears = i > 0 && i <= table.rows.size() && table.rows[i - 1][loss] == true;
    std::cout << (bears ? "\x1b[32m" + line + "\x1b[0m" : line) << "\n";
  }
}

}  // namespace

void add_show_command(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "show", "the first entries as a run sees them: tokens, labels, and what bears loss");
  const auto arguments = std::make_shared<ShowArguments>();
  command
      ->add_option(
          "dataset", arguments->dataset,
          "a JSON, JSON Lines, Parquet or Arrow file, a folder of them, a dataset of the hub "
          "that is here, or the name of a generated dataset")
      ->required();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "directory with tokenizer.json (default: the tokenizer that ships)");
  arguments->text_field =
      command->add_option("--text-field", arguments->options.text_field, "field with the text")
          ->capture_default_str();
  command->add_option("--template", arguments->entry_template,
                      "make an entry's text of its fields: '{{input}} -> {{output}}'");
  command->add_option("--conversation-column", arguments->options.conversation_field,
                      "field with messages; what assistants say bears loss");
  command->add_option("--chat-template", arguments->chat_template,
                      "Jinja template of conversations, or its file; default: the tokenizer's own");
  command->add_option("--input-column", arguments->options.input_field,
                      "field that bears no loss, in front of --output-column");
  command->add_option("--output-column", arguments->options.output_field,
                      "field that bears the loss, behind --input-column");
  command
      ->add_option("--response-template", arguments->response_template,
                   "what bears loss follows this text; None: all of an entry does")
      ->capture_default_str();
  command
      ->add_option("--model-max-length", arguments->options.model_max_length,
                   "cut entries to this many tokens")
      ->transform(whole_number(1, int64_t{1} << 30))
      ->option_text("N=2048");
  command->add_option("-n,--entries", arguments->entries, "how many entries")
      ->transform(whole_number(1))
      ->option_text("N=3");
  command->add_option("--first", arguments->first, "the first of them, counted from 0")
      ->transform(whole_number(0))
      ->option_text("N=0");
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Entries with input_ids are taken as tokenized already.

Examples:
  sftbench dataset show qa.json --template 'Q: {{q}} ### Response: {{a}}'
  sftbench dataset show qa.json --input-column question --output-column answer)");
  command->callback([arguments, &exit_code] {
    print_tokens(token_table(*arguments), output_format(arguments->format));
    exit_code = 0;
  });
}

}  // namespace sftbench
