#include "cli/experiments.h"

#include <iostream>
#include <memory>
#include <string>

#include "cli/definition_list.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

Table overview(const Catalog& catalog) {
  Table table{{"experiment", "tuning", "required", "optional", "measured", "summary"}, {}};
  for (const Experiment& experiment : catalog.experiments) {
    size_t required = 0;
    for (const PropertySpec& spec : experiment.properties) required += spec.required ? 1 : 0;
    table.rows.push_back({experiment.identifier, experiment.tuning, required,
                          experiment.properties.size() - required, experiment.measured.size(),
                          experiment.summary});
  }
  return table;
}

std::string shown(const Json& value) {
  if (value.is_null()) return "None";
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

Table property_table(const Experiment& experiment) {
  Table table{{"property", "required", "domain", "default", "unit", "meaning"}, {}};
  for (const PropertySpec& spec : experiment.properties) {
    table.rows.push_back({spec.identifier, spec.required, spec.expectation(),
                          spec.required ? Json(nullptr) : Json(shown(spec.default_value)),
                          spec.unit, spec.help});
  }
  return table;
}

Json as_json(const Experiment& experiment) {
  Json json = {{"identifier", experiment.identifier},
               {"actuator", experiment.actuator},
               {"tuning", experiment.tuning},
               {"summary", experiment.summary},
               {"aliases", experiment.aliases},
               {"runs", experiment.runs},
               {"properties", Json::array()},
               {"hardcoded", experiment.hardcoded},
               {"measured", Json::array()}};
  for (const PropertySpec& spec : experiment.properties) {
    Json property = {{"identifier", spec.identifier},
                     {"required", spec.required},
                     {"kind", to_string(spec.kind)}};
    if (!spec.required) property["default"] = spec.default_value;
    if (!spec.values.empty()) property["values"] = spec.values;
    if (spec.range) {
      property["range"] = {{"lower", spec.range->lower},
                           {"upper", spec.range->upper},
                           {"interval", spec.range->interval}};
    }
    property["open"] = spec.open;
    property["nullable"] = spec.nullable;
    property["unit"] = spec.unit;
    property["help"] = spec.help;
    json["properties"].push_back(std::move(property));
  }
  for (const MeasuredProperty& measured : experiment.measured) {
    json["measured"].push_back(
        {{"identifier", measured.identifier}, {"unit", measured.unit}, {"help", measured.help}});
  }
  return json;
}

std::string in_full(const Experiment& experiment) {
  Definitions required;
  Definitions optional;
  for (const PropertySpec& spec : experiment.properties) {
    std::string domain = spec.expectation() + (spec.unit.empty() ? "" : " [" + spec.unit + "]");
    if (!spec.required) domain += "; default " + shown(spec.default_value);
    const bool long_list = !spec.open && spec.values_from.empty() && spec.values.size() > 16;
    if (long_list)
      domain = "one of " + join(spec.values) + "; default " + shown(spec.default_value);
    (spec.required ? required : optional).emplace_back(spec.identifier, spec.help + "\n" + domain);
  }
  Definitions fixed;
  for (const auto& [name, value] : experiment.hardcoded.items())
    fixed.emplace_back(name, json_text(value));
  Definitions measured;
  for (const MeasuredProperty& property : experiment.measured) {
    measured.emplace_back(
        property.identifier,
        property.help + (property.unit.empty() ? "" : " [" + property.unit + "]"));
  }
  std::string head =
      experiment.identifier + " (" + experiment.actuator + ")\n" + experiment.summary;
  if (!experiment.aliases.empty()) head += "\nAlso spelled " + join(experiment.aliases);
  return head + "\n\nRequired properties\n" + definition_list(required) +
         "\nOptional properties\n" + definition_list(optional) + "\nFixed by the experiment\n" +
         definition_list(fixed) + "\nMeasured properties\n" + definition_list(measured);
}

void print_one(const Catalog& catalog, const std::string& given, OutputFormat format) {
  const std::string identifier = full_experiment_name(catalog, {}, given);
  const Experiment* experiment = catalog.experiment(identifier);
  if (experiment == nullptr) {
    const std::vector<std::string> names = catalog.experiment_names();
    throw InputError({{{},
                       0,
                       {},
                       "unknown experiment '" + identifier + "'",
                       "one of " + join(names),
                       nearest_spelling(identifier, names)}});
  }
  switch (format) {
    case OutputFormat::kTable:
      std::cout << in_full(*experiment);
      break;
    case OutputFormat::kJson:
      std::cout << json_text(as_json(*experiment), 2) << '\n';
      break;
    case OutputFormat::kJsonLines:
      std::cout << json_text(as_json(*experiment)) << '\n';
      break;
    default:
      print_table(property_table(*experiment), format);
      break;
  }
}

}  // namespace

void add_experiments_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("experiments", "the experiments that are known, or one in full");
  const auto identifier = std::make_shared<std::string>();
  const auto format = std::make_shared<std::string>("table");
  command->add_option("ID", *identifier,
                      "experiment to show in full, or the beginning of its name");
  command->add_option("--format", *format, "table, json, jsonl, csv or md")->capture_default_str();
  command->footer(R"(
Examples:
  sftbench experiments
  sftbench experiments finetune_lora_benchmark-v1.0.0)");
  command->callback([identifier, format, &exit_code] {
    const OutputFormat output = output_format(*format);
    const Catalog& catalog = Catalog::shipped();
    if (identifier->empty()) {
      print_table(overview(catalog), output);
    } else {
      print_one(catalog, *identifier, output);
    }
    exit_code = 0;
  });
}

}  // namespace sftbench
