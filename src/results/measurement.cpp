#include "sftbench/results/measurement.h"

#include <array>
#include <utility>

#include "results/measurement_text.h"
#include "sftbench/base/command_text.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/json_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/measure/measured_properties.h"

namespace sftbench {
namespace {

constexpr std::array<std::string_view, 3> kStatusNames = {"valid", "invalid", "failed"};

[[noreturn]] void fail(const std::string& origin, const std::string& key, std::string message,
                       std::string expected) {
  throw InputError({{.file = origin,
                     .line = 0,
                     .key = key,
                     .message = std::move(message),
                     .expected = std::move(expected),
                     .nearest = {}}});
}

const Json& member(const Json& json, const std::string& key, const std::string& origin) {
  if (!json.is_object() || !json.contains(key)) fail(origin, key, "the key is missing", "");
  return json.at(key);
}

std::string text(const Json& json, const std::string& key, const std::string& origin) {
  const Json& value = member(json, key, origin);
  if (!value.is_string()) fail(origin, key, "found " + json_text(value), "a text");
  return value.get<std::string>();
}

Json object(const Json& json, const std::string& key, const std::string& origin) {
  const Json& value = member(json, key, origin);
  if (!value.is_object()) fail(origin, key, "found " + json_text(value), "an object");
  return value;
}

// The enumerator whose name is `name`, counted over `count` of them.
template <typename Enum>
Enum named(const std::string& name, int count, const std::string& key, const std::string& origin) {
  for (int i = 0; i < count; ++i) {
    if (to_string(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  fail(origin, key, "unknown value '" + name + "'", "");
}

Json reason_json(const std::optional<Reason>& reason) {
  if (!reason) return nullptr;
  return {{"code", to_string(reason->code)},
          {"message", reason->message},
          {"evidence", reason->evidence.empty() ? Json() : Json(reason->evidence)},
          {"log", reason->log.empty() ? Json() : Json(reason->log)}};
}

Json with_cost(const Measurement& m, const DevicePrices& prices) {
  Json json = to_json(m);
  if (const auto cost = token_cost(prices, m)) json["cost"] = to_json(*cost, prices);
  return json;
}

Table one_row(const Measurement& m, const DevicePrices& prices) {
  Table table{{"experiment_id", "entity_id", "status", "reason"}, {}};
  std::vector<Json> row = {m.experiment_id, m.entity_id, std::string(to_string(m.status)),
                           m.reason ? Json(to_string(m.reason->code)) : Json()};
  for (const std::string& name : measured_names(m.experiment)) {
    table.columns.push_back(name);
    row.push_back(m.measured.value(name, Json()));
  }
  if (const auto cost = token_cost(prices, m)) {
    table.columns.push_back(prices.column_name());
    row.push_back(cost->per_million);
  }
  table.rows.push_back(std::move(row));
  return table;
}

}  // namespace

std::vector<std::string> measured_names(const std::string& experiment) {
  std::vector<std::string> names;
  if (const Experiment* known = Catalog::shipped().experiment(experiment)) {
    for (const MeasuredProperty& property : known->measured) names.push_back(property.identifier);
  } else {
    names.assign(kMeasuredProperties.begin(), kMeasuredProperties.end());
  }
  return names;
}

std::string_view to_string(Status status) {
  return kStatusNames.at(static_cast<size_t>(status));
}

int exit_code(Status status) {
  switch (status) {
    case Status::kValid:
      return 0;
    case Status::kInvalid:
      return 3;
    case Status::kFailed:
      return 4;
  }
  return 4;
}

Json to_json(const Measurement& m) {
  Json json = {{"schema", kMeasurementSchema},
               {"key", m.key},
               {"experiment", m.experiment},
               {"experiment_id", m.experiment_id},
               {"entity_id", m.entity_id},
               {"entity", m.entity},
               {"status", to_string(m.status)},
               {"reason", reason_json(m.reason)},
               {"inputs", m.inputs},
               {"measured", m.measured},
               {"extra", m.extra},
               {"environment", m.environment},
               {"started_at", m.started_at},
               {"finished_at", m.finished_at},
               {"command", m.command},
               {"job", m.job}};
  if (m.entity.empty()) json.erase("entity");
  if (m.job.is_null()) json.erase("job");
  if (m.key.empty()) {
    json.erase("key");
  } else {
    json["checksum"] = digest(json_text(json));
  }
  return json;
}

Measurement measurement_from_json(const Json& json, const std::string& origin) {
  if (const std::string schema = text(json, "schema", origin); schema != kMeasurementSchema) {
    fail(origin, "schema", "found '" + schema + "'", std::string("'") + kMeasurementSchema + "'");
  }
  Measurement m;
  if (json.contains("key")) m.key = text(json, "key", origin);
  m.experiment = text(json, "experiment", origin);
  m.experiment_id = text(json, "experiment_id", origin);
  m.entity_id = text(json, "entity_id", origin);
  if (json.contains("entity")) m.entity = object(json, "entity", origin);
  m.status = named<Status>(text(json, "status", origin), static_cast<int>(kStatusNames.size()),
                           "status", origin);
  if (const Json& reason = member(json, "reason", origin); !reason.is_null()) {
    const auto optional_text = [&](const char* key) {
      return member(reason, key, origin).is_null() ? "" : text(reason, key, origin);
    };
    m.reason = Reason{.code = named<ReasonCode>(text(reason, "code", origin),
                                                static_cast<int>(ReasonCode::kInternal) + 1,
                                                "reason.code", origin),
                      .message = text(reason, "message", origin),
                      .evidence = optional_text("evidence"),
                      .log = optional_text("log")};
  }
  m.inputs = object(json, "inputs", origin);
  m.measured = object(json, "measured", origin);
  m.extra = object(json, "extra", origin);
  m.environment = object(json, "environment", origin);
  m.started_at = text(json, "started_at", origin);
  m.finished_at = text(json, "finished_at", origin);
  m.command = masked_command(text(json, "command", origin));
  if (json.contains("job")) m.job = object(json, "job", origin);
  return m;
}

void set_outcome(Measurement& measurement, Status status, Reason reason) {
  check(status != Status::kValid, "a valid measurement has no reason");
  measurement.status = status;
  measurement.reason = std::move(reason);
  measurement.measured = status == Status::kInvalid ? Json{{"is_valid", 0}} : Json(Json::object());
}

std::string render(const Measurement& measurement, OutputFormat format,
                   const DevicePrices& prices) {
  switch (format) {
    case OutputFormat::kTable:
      return measurement_text(measurement, prices);
    case OutputFormat::kJson:
      return json_text(with_cost(measurement, prices), 2) + "\n";
    case OutputFormat::kJsonLines:
      return json_text(with_cost(measurement, prices)) + "\n";
    case OutputFormat::kCsv:
    case OutputFormat::kMarkdown:
      return render(one_row(measurement, prices), format);
  }
  return {};
}

std::string reason_text(ReasonCode code, const std::string& message, const std::string& evidence) {
  return std::string(to_string(code)) + ": " + message +
         (evidence.empty() ? "" : "\nevidence: " + evidence);
}

}  // namespace sftbench
