// One measurement: what was asked, how it ended, what came out. As JSON it is the contract with
// scripts and with `report`; config/measurement.schema.json describes it field by field.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/results/table.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

inline constexpr const char* kMeasurementSchema = "sftbench.measurement/1";

enum class Status {
  kValid,    // every property, is_valid 1
  kInvalid,  // is_valid 0 and nothing else; never measured again
  kFailed,   // no property at all; may be repeated
};
std::string_view to_string(Status status);

// Exit status of `sftbench run`: 0 valid, 3 invalid, 4 failed.
int exit_code(Status status);

// Why a measurement has no properties. Stands in the same file as the outcome, always.
struct Reason {
  ReasonCode code = ReasonCode::kInternal;
  std::string message;
  std::string evidence;  // the raw line that proves it; may be empty
  std::string log;       // path of the run's log; empty when none was written
};

struct Measurement {
  std::string key;  // whose file it stands in; empty in files of versions that wrote none
  std::string experiment;
  std::string experiment_id;
  std::string entity_id;
  Json entity =
      Json::object();  // the space's properties in its order; {} in files of older versions
  Status status = Status::kFailed;
  std::optional<Reason> reason;  // none exactly when valid
  Json inputs = Json::object();
  Json measured = Json::object();
  Json extra = Json::object();  // {} unless training began
  Json environment = Json::object();
  std::string started_at;  // UTC, ISO 8601
  std::string finished_at;
  std::string command;  // repeats this measurement
  Json job;  // what was trained (job_in_result() of plan/job_file.h); null when nothing was to be
};

// "CODE: message", and the evidence in a line of its own.
std::string reason_text(ReasonCode code, const std::string& message, const std::string& evidence);

// The properties that an experiment measures, in ado's order; of one that is not known here, those
// of the benchmarks.
std::vector<std::string> measured_names(const std::string& experiment);

// With a key also with a checksum as its last field: the digest of its text in one line without
// that field. Space between values does not count, all else does.
Json to_json(const Measurement& measurement);

// InputError naming the key when one is missing or of the wrong type. The checksum is for files:
// what comes through a pipe is whole.
Measurement measurement_from_json(const Json& json, const std::string& origin);

// Sets an invalid or failed outcome, with the properties that belong to it.
void set_outcome(Measurement& measurement, Status status, Reason reason);

// What `run` prints. As a table for people: what was measured and how it ended, speed, loss,
// memory, MFU and energy in a line each, then property, value, unit. As csv and md: one row with
// ids, status, reason and properties. As json and jsonl: the whole measurement. Where its devices
// have a price, each says what tokens cost.
std::string render(const Measurement& measurement, OutputFormat format,
                   const DevicePrices& prices = {});

}  // namespace sftbench
