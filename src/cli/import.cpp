#include "cli/import.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/record.h"
#include "sftbench/advise/foreign_table.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/predict/stack_model.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

struct ImportArguments {
  std::string path;
  std::string layout;
  std::string stack = "fms-hf-tuning";
  std::string output = "results";
  std::string config_path;
  std::string format = "table";
  std::vector<std::string> columns, constants;
};

// "a=b" each. InputError naming the option.
std::map<std::string, std::string> pairs(const std::string& option,
                                         const std::vector<std::string>& texts) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw InputError({{{},
                         0,
                         option,
                         "found '" + text + "'",
                         "NAME=" + std::string(option == "--map" ? "COLUMN" : "VALUE"),
                         {}}});
    }
    if (pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second) continue;
    throw InputError({{{}, 0, option + " " + text.substr(0, equals), "given twice", "once", {}}});
  }
  return pairs;
}

ImportOptions options_of(const ImportArguments& arguments) {
  std::vector<Diagnostic> warnings;
  ImportOptions options;
  options.layout = arguments.layout;
  options.stack = StackModel::named(arguments.stack).name;
  options.columns = pairs("--map", arguments.columns);
  options.constants = pairs("--set", arguments.constants);
  options.extra_models =
      read_actuator_settings(arguments.config_path, nullptr, {}, warnings).model_names();
  for (const Diagnostic& warning : warnings) spdlog::warn("{}", to_string(warning));
  return options;
}

// How many rows ended how, and what was left out for which reason.
Table overview(const ImportedTable& table) {
  std::map<std::string, int64_t> reasons;
  int64_t counts[3] = {};
  for (const Evidence& row : table.rows) ++counts[static_cast<size_t>(row.outcome)];
  for (const LeftOutRow& row : table.left_out) ++reasons[row.reason];
  Table overview{{"rows", "taken_as", "reason"}, {}};
  const char* names[] = {"valid", "out_of_memory", "failed"};
  for (size_t i = 0; i < 3; ++i) {
    if (counts[i] > 0) overview.rows.push_back({counts[i], names[i], Json()});
  }
  for (const auto& [reason, count] : reasons) {
    overview.rows.push_back({count, "left out", reason});
  }
  return overview;
}

int import(const ImportArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  const ImportedTable table =
      import_table(arguments.path, options_of(arguments), Catalog::shipped());
  print_table(overview(table), format);
  for (const LeftOutRow& row : table.left_out) {
    spdlog::debug("{}:{}: left out: {}", arguments.path, row.line, row.reason);
  }
  if (!table.unused.empty()) spdlog::info("columns without use: {}", join(table.unused));
  if (table.rows.empty()) {
    throw InputError({{arguments.path, 0, {}, "no row became evidence", "one that does", {}}});
  }
  const std::filesystem::path name = std::filesystem::path(arguments.path).stem();
  const std::filesystem::path file =
      std::filesystem::path(arguments.output) / "evidence" / (name.string() + ".jsonl");
  write_file_atomic(file, evidence_text(table.rows));
  spdlog::info("{} of evidence: {}", counted(std::ssize(table.rows), "row"), file.string());
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("import", "take measurements that others made as evidence");
  const auto arguments = std::make_shared<ImportArguments>();
  command->add_option("FILE", arguments->path, "table to import (CSV)")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--as", arguments->layout,
                   "layout: what ado writes; fms-acceleration's benchmarks; any other, by --map")
      ->required()
      ->type_name("ado|fms-acceleration|csv");
  command
      ->add_option("--map", arguments->columns,
                   "column of a property, or of experiment, tokens_per_second (all devices), "
                   "allocated_bytes (one device), is_valid")
      ->type_name("NAME=COLUMN")
      ->allow_extra_args(false);
  command
      ->add_option("--set", arguments->constants,
                   "property, or experiment, of all rows that do not say it")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command->add_option("--stack", arguments->stack, "what was measured")
      ->type_name("fms-hf-tuning|sftbench")
      ->capture_default_str();
  command
      ->add_option("--config", arguments->config_path,
                   "actuator configuration (ado's format); its model_map adds models")
      ->type_name("FILE");
  command
      ->add_option("-o,--output", arguments->output,
                   "results folder; the evidence goes into its subfolder evidence")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Evidence stays apart from own results: no report mixes them. Rows that cannot
be placed are counted with their reasons; --log-level debug names their lines.

Examples:
  sftbench import entities.csv --as ado
  sftbench import refs/a100_80gb.csv --as fms-acceleration
  sftbench import mine.csv --as csv --set experiment=lora \
    --map model_name=model --map tokens_per_second=rate)");
  command->callback([arguments, &exit_code] { exit_code = import(*arguments); });
}

}  // namespace sftbench
