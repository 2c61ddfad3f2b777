// TrainingJob <-> JSON. training_job_fields.h names every field.
#include "sftbench/plan/training_job.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/fields.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/training_job_fields.h"

namespace sftbench {
namespace {

constexpr size_t kMostErrors = 100;
constexpr size_t kLongestName = 200;

// Lists everything that is wrong with a job, unknown keys among it.
class Reader {
 public:
  Reader(const Json& root, std::string origin) : origin_(std::move(origin)), at_(&root) {
    if (!root.is_object()) error("", "not an object", "a training job");
  }

  template <typename Value>
  void operator()(const char* key, Value& value, const OnResuming&) {
    read(key, value);
  }

  template <typename Number>
  void operator()(const char* key, Number& value, const OnResuming&, const FieldRange& range) {
    if (!read(key, value)) return;
    const auto number = static_cast<double>(value);
    if (number >= range.least && number <= range.most) return;
    const auto text = [](double bound) { return json_text(Json(static_cast<Number>(bound))); };
    error(key, "found " + json_text(Json(value)),
          "a number from " + text(range.least) + " to " + text(range.most));
  }

  template <HasFields Section>
  void operator()(const char* key, Section& section) {
    const Json* found = member(key);
    if (found == nullptr) return;
    if (!found->is_object()) {
      error(key, "found " + found->dump().substr(0, 60), "an object");
      return;
    }
    const Json* outer = std::exchange(at_, found);
    const std::string outer_path = std::exchange(path_, path_ + key + ".");
    std::vector<std::string> outer_known = std::exchange(known_, {});
    fields(*this, section);
    reject_unknown();
    at_ = outer;
    path_ = outer_path;
    known_ = std::move(outer_known);
  }

  void reject_unknown() {
    if (!at_->is_object()) return;
    for (const auto& [key, value] : at_->items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      if (path_ + key == kFormerRotation) continue;
      if (errors_.size() == kMostErrors) return;  // the first hundred say enough
      error(key.substr(0, kLongestName), "unknown key", "one of " + join(known_),
            nearest_spelling(key, known_));
    }
  }

  void throw_if_failed() {
    if (!errors_.empty()) throw InputError(std::move(errors_));
  }

 private:
  // False when the job does not have it.
  template <typename Value>
  bool read(const char* key, Value& value) {
    const Json* found = member(key);
    if (found == nullptr) return false;
    const bool right = matches(*found, value);
    if (right) value = found->get<Value>();
    if (!right) {
      error(key, "found " + found->dump().substr(0, 60), expectation(value), near(*found, value));
    }
    return right;
  }

  const Json* member(const char* key) {
    known_.emplace_back(key);
    if (!at_->is_object()) return nullptr;
    const auto found = at_->find(key);
    if (found != at_->end()) return &*found;
    const std::string place = path_ + key;
    if (!came_after_0_1_0(place)) error(key, "missing", {});
    return nullptr;
  }

  void error(const std::string& key, std::string message, std::string expected,
             std::string nearest = {}) {
    errors_.push_back(
        {origin_, 0, path_ + key, std::move(message), std::move(expected), std::move(nearest)});
  }

  template <Named Kind>
  static bool matches(const Json& json, Kind) {
    return json.is_string() && find_named<Kind>(json.get_ref<const std::string&>()).has_value();
  }
  static bool matches(const Json& json, const std::string&) { return json.is_string(); }
  static bool matches(const Json& json, const std::vector<std::string>&) {
    return json.is_array() && std::all_of(json.begin(), json.end(),
                                          [](const Json& element) { return element.is_string(); });
  }
  static bool matches(const Json& json, const Json&) { return json.is_object(); }
  static bool matches(const Json& json, bool) { return json.is_boolean(); }
  static bool matches(const Json& json, double) { return json.is_number(); }
  static bool matches(const Json& json, int64_t) {
    const bool too_large = json.is_number_unsigned() &&
                           json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    return json.is_number_integer() && !too_large;
  }
  static bool matches(const Json& json, uint64_t) { return json.is_number_unsigned(); }

  template <Named Kind>
  static std::string expectation(Kind) {
    return "one of " + join(names_of<Kind>());
  }
  static std::string expectation(const std::string&) { return "text"; }
  static std::string expectation(const std::vector<std::string>&) { return "a list of texts"; }
  static std::string expectation(const Json&) { return "an object"; }
  static std::string expectation(bool) { return "true or false"; }
  static std::string expectation(double) { return "a number"; }
  static std::string expectation(int64_t) { return "an integer"; }
  static std::string expectation(uint64_t) { return "an integer of at least 0"; }

  template <typename Value>
  static std::string near(const Json& json, const Value&) {
    if constexpr (Named<Value>) {
      if (json.is_string()) {
        return nearest_spelling(json.get_ref<const std::string&>(), names_of<Value>());
      }
    }
    return {};
  }

  std::string origin_;
  const Json* at_;
  std::string path_;
  std::vector<std::string> known_;
  std::vector<Diagnostic> errors_;
};

// Among the inputs, where results of another backend differ; there only if it is not the default.
std::string backend_of(const Json& inputs, const std::string& origin) {
  const auto found = inputs.find("backend");
  if (found == inputs.end()) return kBackendLibtorch;
  if (*found == kBackendLibtorch || *found == kBackendSimulate) return *found;
  throw InputError({{origin,
                     0,
                     "inputs.backend",
                     "found " + json_text(*found),
                     std::string(kBackendLibtorch) + " or " + kBackendSimulate,
                     {}}});
}

}  // namespace

bool came_after_0_1_0(std::string_view field) {
  constexpr std::array<std::string_view, 14> kLater = {
      "data.mask",           "data.most_entries",    "evaluation.steps_ratio",
      "evaluation.on_start", "evaluation.generated", "evaluation.max_new_tokens",
      "save.steps_ratio",    "save.log_steps_ratio", "lora.use_rslora",
      "lora.use_dora",       "lora.modules_to_save", "lora.rank_pattern",
      "lora.alpha_pattern",  "dashboard_url"};
  return std::find(kLater.begin(), kLater.end(), field) != kLater.end();
}

Json to_json(const TrainingJob& job) {
  return json_of_fields(job);
}

TrainingJob training_job_from_json(const Json& json, const std::string& origin) {
  TrainingJob job;
  Reader reader(json, origin);
  fields(reader, job);
  reader.reject_unknown();
  reader.throw_if_failed();
  job.backend = backend_of(job.inputs, origin);
  return job;
}

}  // namespace sftbench
