// sftbench dataset show DATASET: the first entries as a run sees them, token by token, and which of
// them bear loss; and what a run would say of all entries.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/dataset_forms.h"
#include "cli/given_data.h"
#include "cli/number_checks.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct ShowArguments {
  DatasetForms forms;
  std::string format = "table";
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

std::vector<int64_t> numbers(int64_t begin, int64_t end) {
  std::vector<int64_t> entries;
  for (int64_t i = begin; i < end; ++i) entries.push_back(i);
  return entries;
}

Table token_table(const TextDataset& dataset, const std::vector<int64_t>& entries,
                  const Tokenizer& tokenizer, const std::string& folder) {
  const auto tokens = spelled_tokens(folder);
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

// Prints the entries asked for, and says of all of them what a run would say.
void show(const ShowArguments& arguments) {
  const DatasetForms& forms = arguments.forms;
  Entries file = open_entries(require_dataset("dataset", forms.dataset));
  const TextDatasetOptions options = options_of(forms, file);
  const Tokenizer tokenizer = tokenizer_of(forms);
  TextDataset dataset(std::move(file), tokenizer, options);
  if (arguments.first >= dataset.size()) {
    throw InputError({{{},
                       0,
                       "--first",
                       "found " + std::to_string(arguments.first),
                       "an entry from 0 to " + std::to_string(dataset.size() - 1),
                       {}}});
  }
  const std::vector<int64_t> shown =
      numbers(arguments.first, std::min(arguments.first + arguments.entries, dataset.size()));
  dataset.encode(shown, 1);
  print_tokens(token_table(dataset, shown, tokenizer, forms.tokenizer),
               output_format(arguments.format));
  std::cout.flush();
  dataset.encode(numbers(0, dataset.size()),
                 static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  tell_account(dataset);
}

}  // namespace

void add_show_command(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "show", "the first entries as a run sees them: tokens, labels, and what bears loss");
  const auto arguments = std::make_shared<ShowArguments>();
  add_dataset_form_options(*command, arguments->forms, "dataset");
  arguments->forms.options.model_max_length = 2048;
  command
      ->add_option("--model-max-length", arguments->forms.options.model_max_length,
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
The first entry tells what entries are, as in a run: input_ids, messages,
conversations, prompt and completion, or instruction and output. What a run
would say of all entries stands on stderr.

Examples:
  sftbench dataset show qa.json --template 'Q: {{q}} ### Response: {{a}}'
  sftbench dataset show qa.json --input-column question --output-column answer)");
  command->callback([arguments, &exit_code] {
    show(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
