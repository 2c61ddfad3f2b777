#include "sftbench/advise/evidence.h"

#include <array>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr const char* kSchema = "sftbench.evidence/1";
constexpr std::array<const char*, 3> kOutcomes = {"valid", "out_of_memory", "failed"};

EvidenceOutcome outcome_named(const std::string& name, const std::string& origin) {
  for (size_t i = 0; i < kOutcomes.size(); ++i) {
    if (name == kOutcomes[i]) return static_cast<EvidenceOutcome>(i);
  }
  throw InputError(
      {{origin, 0, "outcome", "found '" + name + "'", "valid, out_of_memory or failed", {}}});
}

const Json& member(const Json& json, const char* key, const std::string& origin, bool is_right,
                   const char* expected) {
  if (!json.contains(key) || !is_right) {
    throw InputError(
        {{origin, 0, key, json.contains(key) ? "is something else" : "is missing", expected, {}}});
  }
  return json.at(key);
}

std::string text(const Json& json, const char* key, const std::string& origin) {
  const bool right = json.contains(key) && json.at(key).is_string();
  return member(json, key, origin, right, "a text").get<std::string>();
}

std::optional<double> figure(const Json& json, const char* key, const std::string& origin) {
  if (!json.contains(key) || json.at(key).is_null()) return std::nullopt;
  const bool right = json.at(key).is_number() && json.at(key).get<double>() > 0;
  return member(json, key, origin, right, "a number above 0, or null").get<double>();
}

Json or_null(const std::optional<double>& figure) {
  return figure ? Json(*figure) : Json();
}

}  // namespace

Json to_json(const Evidence& evidence) {
  return {{"schema", kSchema},
          {"source", evidence.source},
          {"stack", evidence.stack},
          {"experiment", evidence.experiment},
          {"outcome", kOutcomes[static_cast<size_t>(evidence.outcome)]},
          {"tokens_per_second", or_null(evidence.tokens_per_second)},
          {"allocated_bytes", or_null(evidence.allocated_bytes)},
          {"inputs", evidence.inputs}};
}

Evidence evidence_from_json(const Json& json, const std::string& origin) {
  if (!json.is_object()) throw InputError({{origin, 0, {}, "is no object", "evidence", {}}});
  if (const std::string schema = text(json, "schema", origin); schema != kSchema) {
    throw InputError({{origin, 0, "schema", "found '" + schema + "'", kSchema, {}}});
  }
  const bool has_inputs = json.contains("inputs") && json.at("inputs").is_object();
  return {.source = text(json, "source", origin),
          .stack = text(json, "stack", origin),
          .experiment = text(json, "experiment", origin),
          .inputs = member(json, "inputs", origin, has_inputs, "an object"),
          .outcome = outcome_named(text(json, "outcome", origin), origin),
          .tokens_per_second = figure(json, "tokens_per_second", origin),
          .allocated_bytes = figure(json, "allocated_bytes", origin)};
}

std::vector<Evidence> read_evidence(const std::string& path) {
  const std::string content = read_file(path);
  std::vector<Evidence> rows;
  int line = 0;
  for (size_t begin = 0; begin < content.size(); ++line) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view row = trimmed(std::string_view(content).substr(begin, end - begin));
    const std::string origin = path + ":" + std::to_string(line + 1);
    if (!row.empty()) rows.push_back(evidence_from_json(parse_json(row, origin), origin));
    begin = end + 1;
  }
  return rows;
}

std::string evidence_text(const std::vector<Evidence>& rows) {
  std::string text;
  for (const Evidence& row : rows) text += json_text(to_json(row)) + "\n";
  return text;
}

}  // namespace sftbench
