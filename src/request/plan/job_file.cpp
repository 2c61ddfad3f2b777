#include "sftbench/plan/job_file.h"

#include <array>
#include <map>
#include <utility>

#include "plan/job_edits.h"
#include "plan/own_model.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kEntity = "entity";
constexpr size_t kDigits = 8;  // of a field's fingerprint
// What a result says of its job outside of the job.
constexpr std::array kNames = {"experiment", "experiment_id", "entity_id", "entity", "inputs"};

// "lora.rank" and its value, for every field of every section, in the order of the file.
std::vector<std::pair<std::string, Json>> fields_of(const Json& job) {
  std::vector<std::pair<std::string, Json>> fields;
  for (const auto& [key, value] : job.items()) {
    // How a space spells the inputs; results and jobs of older versions lack it.
    if (key == kEntity) continue;
    if (!value.is_object() || key == "inputs") {
      fields.emplace_back(key, value);
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) {
      fields.emplace_back(key + "." + inner, inner_value);
    }
  }
  return fields;
}

// The same for values that are equal: other programs print 1.0 as 1 and sort members by name.
Json normal_form(const Json& value) {
  if (value.is_object()) {
    std::map<std::string, Json> members;
    for (const auto& [key, member] : value.items()) members[key] = normal_form(member);
    return members;
  }
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(normal_form(item));
    return list;
  }
  return value.is_number() ? Json(value.get<double>()) : value;
}

std::string fingerprint_of(const std::vector<std::pair<std::string, Json>>& fields) {
  std::string text;
  for (const auto& field : fields) {
    text += digest(json_text(normal_form(field.second))).substr(0, kDigits);
  }
  return text;
}

std::vector<std::string> edited_fields(const TrainingJob& job, const std::string& fingerprint) {
  const auto fields = fields_of(to_json(job));
  const std::string found = fingerprint_of(fields);
  std::vector<std::string> edited;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (found.compare(i * kDigits, kDigits, fingerprint, i * kDigits, kDigits) != 0) {
      edited.push_back(fields[i].first);
    }
  }
  return edited;
}

// A result's job, with what the result itself says of it.
Json whole_job(const Json& result, const std::string& path) {
  if (!result.contains("job") || !result.at("job").is_object()) {
    throw InputError({{path,
                       0,
                       "job",
                       "missing: nothing was to be trained, or the result is of an "
                       "older version",
                       "a result that holds its job, or a job that --dry-run printed",
                       {}}});
  }
  Json job = Json::object();
  for (const char* name : kNames) {
    if (result.contains(name)) job[name] = result.at(name);
  }
  job.update(result.at("job"));
  return job;
}

// The fingerprint of a job of version 0.1.0 with those of fields that came later, which it left at
// their defaults, and without that of one that went. One of this version as it is; empty: it is of
// another one.
std::string with_present_fields(std::string fingerprint, bool has_rotation) {
  const auto fields = fields_of(to_json(TrainingJob()));
  const bool lacks = fingerprint.size() != (fields.size() + (has_rotation ? 1 : 0)) * kDigits;
  for (size_t i = 0; i < fields.size() && fingerprint.size() >= i * kDigits; ++i) {
    if (lacks && came_after_0_1_0(fields[i].first))
      fingerprint.insert(i * kDigits, fingerprint_of({fields[i]}));
    if (has_rotation && fields[i].first == "parallel.context_ranks" &&
        fingerprint.size() > (i + 1) * kDigits)
      fingerprint.erase((i + 1) * kDigits, kDigits);
  }
  return fingerprint.size() == fields.size() * kDigits ? fingerprint : std::string();
}

std::string take_fingerprint(Json& job, const std::string& path) {
  const auto found = job.find(kFingerprint);
  const std::string expected = "a job that this version's `sftbench run --dry-run` printed";
  if (found == job.end()) throw InputError({{path, 0, kFingerprint, "missing", expected, {}}});
  std::string fingerprint = found->is_string() ? found->get<std::string>() : std::string();
  fingerprint = with_present_fields(fingerprint, job.at("parallel").contains("context_rotation"));
  if (fingerprint.empty()) {
    throw InputError({{path, 0, kFingerprint, "not of this version's fields", expected, {}}});
  }
  job.erase(found);
  return fingerprint;
}

}  // namespace

Json job_file(const TrainingJob& job) {
  Json json = to_json(job);
  json[kFingerprint] = fingerprint_of(fields_of(json));
  return json;
}

Json job_in_result(const TrainingJob& job) {
  if (job.model.name.empty()) return nullptr;
  Json json = job_file(job);
  for (const char* name : kNames) json.erase(name);
  return json;
}

JobFile read_job_file(const std::string& path) {
  Json json = read_json_file(path);
  if (json.is_object() && json.contains("schema")) json = whole_job(json, path);
  if (!json.is_object()) throw InputError({{path, 0, {}, "not an object", "a training job", {}}});
  if (!json.contains(kEntity)) json[kEntity] = Json::object();
  // The fields first: of a file that is no job at all they say more than a fingerprint.
  Json fields = json;
  fields.erase(kFingerprint);
  JobFile file{training_job_from_json(fields, path), {}, {}};
  file.gathers = json.at("parallel").value("context_rotation", Json("ring")) != "ring";
  file.edited = follow_edits(file.job, edited_fields(file.job, take_fingerprint(json, path)), path);
  file.renewed = renew_content(file.job);
  return file;
}

}  // namespace sftbench
