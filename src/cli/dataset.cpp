#include "cli/dataset.h"

#include <filesystem>
#include <memory>
#include <string>

#include "cli/dataset_commands.h"
#include "cli/hub_fetch.h"
#include "cli/record.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// The size of a Parquet file depends on the Arrow that writes it: it is known when the file is
// there.
Json size_of(const NamedDataset& dataset, const fs::path& path) {
  if (dataset.text) return named_text_generator(dataset).total_bytes();
  std::error_code absent;
  const uintmax_t bytes = fs::file_size(path, absent);
  return absent ? Json() : Json(bytes);
}

Table named_dataset_table() {
  Table table{{"dataset", "entries", "bytes", "path", "present"}, {}};
  for (const NamedDataset& dataset : named_datasets()) {
    const fs::path path = default_dataset_path(dataset);
    const int64_t entries = dataset.text ? dataset.text->entries : dataset.vision->entries;
    table.rows.push_back(
        {dataset.id, entries, size_of(dataset, path), path.string(), fs::exists(path)});
  }
  return table;
}

void add_list(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand("list", "the datasets that have a name");
  const auto format = std::make_shared<std::string>("table");
  command->add_option("--format", *format, "table, json, jsonl, csv or md")->capture_default_str();
  command->footer(R"(
Example:
  sftbench dataset list)");
  command->callback([format, &exit_code] {
    print_table(named_dataset_table(), output_format(*format));
    exit_code = 0;
  });
}

}  // namespace

void add_dataset_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  CLI::App* command = app.add_subcommand("dataset", "make, fetch, count and show datasets");
  command->require_subcommand(1);
  command->footer(R"(
Examples:
  sftbench dataset list
  sftbench dataset text news-tokens-16384plus-entries-4096 -o news.jsonl
  sftbench dataset fetch HuggingFaceH4/ultrachat_200k::train_sft
  sftbench dataset count news.jsonl --tokenizer DIR
  sftbench dataset show news.jsonl --tokenizer DIR -n 1)");
  add_generator_commands(*command, app, exit_code);
  add_list(*command, exit_code);
  add_fetch_command(*command, common, RepositoryKind::kDataset, exit_code);
  add_count_command(*command, app, exit_code);
  add_show_command(*command, exit_code);
}

}  // namespace sftbench
