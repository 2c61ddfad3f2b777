#include "sftbench/space/validity.h"

#include <algorithm>
#include <cstdlib>

namespace sftbench {
namespace {

// The rules read these inputs again and again; one look-up each.
struct Facts {
  int64_t batch_size;
  int64_t number_gpus;
  int64_t number_nodes;
  int64_t fast_moe;
  std::string gpu_model;
  std::string model_name;
  std::string version;

  explicit Facts(const Json& inputs)
      : batch_size(integer(inputs, "batch_size", 1)),
        number_gpus(integer(inputs, "number_gpus", 0)),
        number_nodes(integer(inputs, "number_nodes", 1)),
        fast_moe(integer(inputs, "fast_moe", 0)),
        gpu_model(text(inputs, "gpu_model")),
        model_name(text(inputs, "model_name")),
        version(text(inputs, "fms_hf_tuning_version")) {}

  static int64_t integer(const Json& inputs, const char* key, int64_t otherwise) {
    const auto found = inputs.find(key);
    return found != inputs.end() && found->is_number() ? found->get<int64_t>() : otherwise;
  }
  static std::string text(const Json& inputs, const char* key) {
    const auto found = inputs.find(key);
    return found != inputs.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
};

std::string named(const char* property, int64_t value) {
  return std::string(property) + " " + std::to_string(value);
}

// Numeric comparison of the first two parts of a version such as 2.8.2 or 3.0.0.1.
bool is_before_2_4(const std::string& version) {
  char* end = nullptr;
  const long major = std::strtol(version.c_str(), &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return major < 2 || (major == 2 && minor < 4);
}

}  // namespace

std::vector<Violation> validate(const Json& inputs, const ModelCatalog& models) {
  const Facts facts(inputs);
  const int64_t devices = std::max<int64_t>(1, facts.number_gpus);
  std::vector<Violation> violations;
  const auto broken = [&violations](ReasonCode code, const std::string& message) {
    violations.push_back({code, message});
  };

  if (facts.batch_size % devices != 0) {
    broken(ReasonCode::kRule1, named("batch_size", facts.batch_size) +
                                   " cannot be divided evenly by " +
                                   named("number_gpus", facts.number_gpus));
  }
  if (facts.number_nodes > 0 && devices % facts.number_nodes != 0) {
    broken(ReasonCode::kRule2, named("number_gpus", facts.number_gpus) +
                                   " cannot be divided evenly by " +
                                   named("number_nodes", facts.number_nodes));
  }
  if (facts.number_nodes <= 0) {
    broken(ReasonCode::kRule3,
           named("number_nodes", facts.number_nodes) + " is not greater than 0");
  }
  if (facts.batch_size <= 0) {
    broken(ReasonCode::kRule4, named("batch_size", facts.batch_size) + " is not greater than 0");
  }
  if (facts.number_gpus > 0 && facts.gpu_model.empty()) {
    broken(ReasonCode::kRule5, "gpu_model is not given although " +
                                   named("number_gpus", facts.number_gpus) + " is greater than 0");
  }
  if (facts.fast_moe <= 0) return violations;

  if (facts.number_gpus % facts.fast_moe != 0) {
    broken(ReasonCode::kRule6, named("number_gpus", facts.number_gpus) +
                                   " cannot be divided evenly by " +
                                   named("fast_moe", facts.fast_moe));
  }
  // The documents state this one in a note, without a number of its own; it belongs to the rules of
  // fast_moe.
  if (is_before_2_4(facts.version)) {
    broken(ReasonCode::kRule6, named("fast_moe", facts.fast_moe) +
                                   " needs fms_hf_tuning_version 2.4.0 or later, not " +
                                   facts.version);
  }
  const ModelFacts* model = models.find(facts.model_name);
  const int64_t experts = model == nullptr ? 0 : model->experts().value_or(0);
  if (experts % facts.fast_moe != 0) {
    broken(ReasonCode::kRule7, "num_local_experts " + std::to_string(experts) + " of " +
                                   facts.model_name + " cannot be divided evenly by " +
                                   named("fast_moe", facts.fast_moe));
  }
  return violations;
}

}  // namespace sftbench
