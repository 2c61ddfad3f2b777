#include "cli/explain.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <iostream>
#include <memory>
#include <string>

#include "cli/evidence_option.h"
#include "cli/export_option.h"
#include "cli/machine_options.h"
#include "cli/record.h"
#include "sftbench/advise/explain.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

struct ExplainArguments {
  std::string result;
  std::string own;  // --evidence
  MachineOverrides overrides;
  std::string format = "table";
  std::vector<std::string> exports;
};

Json or_nothing(const std::optional<double>& value) {
  return value ? Json(std::round(*value * 1e6) / 1e6) : Json();
}

// Measured over predicted, less 1.
Json off_percent(const Term& term) {
  if (!term.predicted || !term.measured || *term.predicted <= 0) return {};
  return std::round(1000 * (*term.measured / *term.predicted - 1)) / 10;
}

Table table_of(const Explanation& explanation) {
  Table table{{"term", "predicted", "measured", "unit", "off_%", "note"}, {}};
  for (const Term& term : explanation.terms) {
    table.rows.push_back({term.name, or_nothing(term.predicted), or_nothing(term.measured),
                          term.unit, off_percent(term),
                          term.note.empty() ? Json() : Json(term.note)});
  }
  return table;
}

Json as_json(const Explanation& explanation, const OwnMeasurement& own, const Interval& interval) {
  Json terms = Json::array();
  for (const Term& term : explanation.terms) {
    terms.push_back({{"term", term.name},
                     {"predicted", or_nothing(term.predicted)},
                     {"measured", or_nothing(term.measured)},
                     {"unit", term.unit},
                     {"off_percent", off_percent(term)},
                     {"note", term.note.empty() ? Json() : Json(term.note)}});
  }
  const bool known = interval.residuals > 0;
  return {{"result", own.file},
          {"sentence", explanation.sentence},
          {"step_interval", known ? Json({{"low", explanation.step.low},
                                          {"high", explanation.step.high},
                                          {"basis", interval.basis}})
                                  : Json()},
          {"within", known ? Json(explanation.within) : Json()},
          {"terms", std::move(terms)}};
}

void explain_result(const ExplainArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  StackModel::named(arguments.overrides.stack);
  const OwnMeasurement own = read_own_measurement(arguments.result);
  const Json result = read_json_file(arguments.result);
  std::vector<Diagnostic> warnings;
  const ActuatorSettings settings = read_actuator_settings({}, nullptr, {}, warnings);
  Oracle oracle(settings, {}, arguments.overrides, Catalog::shipped());
  const Prediction prediction = oracle.predict(own.job, arguments.overrides.stack);
  const Uncertainty uncertainty = uncertainty_with(arguments.own, oracle);
  if (result.at("inputs").value("backend", "") == kBackendSimulate)
    spdlog::warn("the result is simulated: its times are predicted ones, and confirm nothing");
  const Explanation explanation = explain(own, result.at("extra"), prediction, uncertainty);
  const ExportedJobs exports =
      write_exports(arguments.exports, own.job, {}, arguments.overrides.stack);
  if (format == OutputFormat::kJson || format == OutputFormat::kJsonLines) {
    const Interval interval = uncertainty.interval(Figure::kTime, prediction.at);
    Json json = as_json(explanation, own, interval);
    if (!exports.json.empty()) json["export"] = exports.json;
    print_record({}, json, format);
    return;
  }
  const bool for_people = format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
  if (for_people) std::cout << explanation.sentence << "\n\n" << std::flush;
  print_table(table_of(explanation), format);
  if (for_people && !exports.lines.empty())
    std::cout << std::flush << "\n" << definition_list(exports.lines);
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "explain", "why a measurement is what it is: its parts beside the predicted ones");
  const auto arguments = std::make_shared<ExplainArguments>();
  command->add_option("RESULT", arguments->result, "file of a valid result")
      ->required()
      ->type_name("FILE");
  add_machine_options(*command, arguments->overrides);
  add_evidence_option(*command, arguments->own);
  add_export_option(*command, arguments->exports);
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
A result of CPUs needs the constants of its machine: sftbench doctor --probe
measures them, or --flops-per-s gives one.

Examples:
  sftbench explain results/finetune_full_benchmark-v1.0.0/1a2b3c4d.json
  sftbench explain result.json --evidence results --format json)");
  command->callback([arguments, &exit_code] {
    explain_result(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
