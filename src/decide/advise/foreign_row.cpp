#include "advise/foreign_row.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sftbench/advise/oracle.h"
#include "sftbench/base/error.h"
#include "sftbench/base/yaml.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

// Beyond these a unit was mistaken: tokens per day, megabytes.
constexpr double kMostTokensPerSecond = 1e9;
constexpr double kLeastBytes = 16 << 20;
constexpr double kMostBytes = 1e13;

YamlNode node_of(const std::string& text) {
  if (!text.empty() && (text.front() == '[' || text.front() == '{')) return parse_yaml(text, "");
  YamlNode node;
  node.text = text;
  node.plain = true;
  node.value = resolve_yaml_scalar(text);
  return node;
}

void check_units(const ForeignRow& row) {
  if (row.tokens_per_second && *row.tokens_per_second > kMostTokensPerSecond) {
    throw Misfit{"tokens_per_second " + std::to_string(*row.tokens_per_second) +
                 " is above 1e9: it has another unit"};
  }
  const auto& bytes = row.allocated_bytes;
  if (bytes && (*bytes < kLeastBytes || *bytes > kMostBytes)) {
    throw Misfit{"allocated_bytes " + std::to_string(*bytes) +
                 " is not from 16 MiB to 10 TB: it has another unit"};
  }
}

EvidenceOutcome outcome_of(const ForeignRow& row, const Json& inputs, const Catalog& catalog) {
  if (row.is_valid.value_or(true)) {
    const bool measured = row.tokens_per_second || row.allocated_bytes;
    return measured ? EvidenceOutcome::kValid : EvidenceOutcome::kFailed;
  }
  const std::vector<Violation> broken = validate(inputs, catalog.models);
  if (!broken.empty()) throw Misfit{"breaks a rule, so nothing ran: " + broken.front().message};
  return EvidenceOutcome::kOutOfMemory;
}

}  // namespace

std::optional<double> figure_of(const std::string& what, const std::string& text) {
  if (text.empty() || text == "nan" || text == "NaN" || text == "None") return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    throw Misfit{what + " is no number: '" + text + "'"};
  }
  if (number > 0) return number;
  throw Misfit{what + " is " + text + ", not above 0"};
}

const Experiment* RowPlacer::experiment(const std::string& name) const {
  if (name.empty()) return nullptr;
  if (const Experiment* known = catalog_.experiment(name)) return known;
  const Experiment* found = nullptr;
  for (const Experiment& experiment : catalog_.experiments) {
    const bool method = name == name_of(experiment.tuning) && experiment.runs == 1;
    if (!method && experiment.identifier.rfind(name, 0) != 0) continue;
    if (found != nullptr) return nullptr;
    found = &experiment;
  }
  return found;
}

const Json& RowPlacer::value(const Experiment& experiment, const std::string& property,
                             const std::string& text) {
  const std::string key = experiment.identifier + "\n" + property + "\n" + text;
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const PropertySpec* spec = experiment.find(property);
  check(spec != nullptr, "properties are looked up before their values are");
  std::optional<Json> accepted = spec->accept(node_of(text));
  const bool extra =
      property == "model_name" && std::count(extra_models_.begin(), extra_models_.end(), text) > 0;
  if (!accepted && extra) accepted = Json(text);
  if (!accepted) {
    throw Misfit{property + ": found '" + text + "', expected " + spec->expectation()};
  }
  return known_.emplace(key, spec->canonical(*accepted)).first->second;
}

Evidence RowPlacer::place(const ForeignRow& row) {
  const Experiment* named = experiment(row.experiment);
  if (named == nullptr) {
    throw Misfit{row.experiment.empty() ? "names no experiment"
                                        : "no experiment is called '" + row.experiment + "'"};
  }
  check_units(row);
  Evidence evidence;
  evidence.experiment = named->identifier;
  for (const auto& [property, text] : row.properties) {
    if (named->find(property) == nullptr) throw Misfit{"unknown property '" + property + "'"};
    evidence.inputs[property] = value(*named, property, text);
  }
  for (const PropertySpec& spec : named->properties) {
    if (spec.required && !evidence.inputs.contains(spec.identifier)) {
      throw Misfit{"does not say " + spec.identifier};
    }
  }
  evidence.outcome = outcome_of(row, request_of(*named, evidence.inputs).inputs, catalog_);
  if (evidence.outcome == EvidenceOutcome::kValid) {
    evidence.tokens_per_second = row.tokens_per_second;
    evidence.allocated_bytes = row.allocated_bytes;
  }
  return evidence;
}

}  // namespace sftbench
