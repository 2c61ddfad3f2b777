#include "sftbench/space/validity.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace sftbench {
namespace {

constexpr std::pair<std::string_view, int64_t RuleInputs::*> kIntegers[] = {
    {"batch_size", &RuleInputs::batch_size},
    {"number_gpus", &RuleInputs::number_gpus},
    {"number_nodes", &RuleInputs::number_nodes},
    {"fast_moe", &RuleInputs::fast_moe},
    {"context_parallel", &RuleInputs::context_parallel}};
constexpr std::pair<std::string_view, std::string RuleInputs::*> kTexts[] = {
    {"gpu_model", &RuleInputs::gpu_model},
    {"model_name", &RuleInputs::model_name},
    {"fms_hf_tuning_version", &RuleInputs::fms_hf_tuning_version}};

std::string named(const char* property, int64_t value) {
  return std::string(property) + " " + std::to_string(value);
}

// Groups of devices that read entries of their own. Groups that do not fit are refused elsewhere.
int64_t readers_among(int64_t devices, int64_t context_parallel) {
  const bool fits = context_parallel > 0 && devices % context_parallel == 0;
  return fits ? devices / context_parallel : devices;
}

// Numeric comparison of the first two parts of a version such as 2.8.2 or 3.0.0.1.
bool is_before_2_4(const std::string& version) {
  char* end = nullptr;
  const long major = std::strtol(version.c_str(), &end, 10);
  const long minor = *end == '.' ? std::strtol(end + 1, nullptr, 10) : 0;
  return major < 2 || (major == 2 && minor < 4);
}

}  // namespace

bool RuleInputs::set(std::string_view property, const Json& value) {
  for (const auto& [name, member] : kIntegers) {
    if (property != name) continue;
    if (value.is_number()) this->*member = value.get<int64_t>();
    return true;
  }
  for (const auto& [name, member] : kTexts) {
    if (property != name) continue;
    this->*member = value.is_string() ? value.get_ref<const std::string&>() : std::string();
    return true;
  }
  return false;
}

std::vector<Violation> validate(const RuleInputs& inputs, const ModelCatalog& models) {
  const int64_t devices = std::max<int64_t>(1, inputs.number_gpus);
  std::vector<Violation> violations;
  const auto broken = [&violations](ReasonCode code, const std::string& message) {
    violations.push_back({code, message});
  };

  if (const int64_t readers = readers_among(devices, inputs.context_parallel);
      inputs.batch_size % readers != 0) {
    const std::string groups =
        readers == devices ? "" : " / " + named("context_parallel", inputs.context_parallel);
    broken(ReasonCode::kRule1, named("batch_size", inputs.batch_size) +
                                   " cannot be divided evenly by " +
                                   named("number_gpus", inputs.number_gpus) + groups);
  }
  if (inputs.number_nodes > 0 && devices % inputs.number_nodes != 0) {
    broken(ReasonCode::kRule2, named("number_gpus", inputs.number_gpus) +
                                   " cannot be divided evenly by " +
                                   named("number_nodes", inputs.number_nodes));
  }
  if (inputs.number_nodes <= 0) {
    broken(ReasonCode::kRule3,
           named("number_nodes", inputs.number_nodes) + " is not greater than 0");
  }
  if (inputs.batch_size <= 0) {
    broken(ReasonCode::kRule4, named("batch_size", inputs.batch_size) + " is not greater than 0");
  }
  if (inputs.number_gpus > 0 && inputs.gpu_model.empty()) {
    broken(ReasonCode::kRule5, "gpu_model is not given although " +
                                   named("number_gpus", inputs.number_gpus) + " is greater than 0");
  }
  if (inputs.fast_moe <= 0) return violations;

  if (inputs.number_gpus % inputs.fast_moe != 0) {
    broken(ReasonCode::kRule6, named("number_gpus", inputs.number_gpus) +
                                   " cannot be divided evenly by " +
                                   named("fast_moe", inputs.fast_moe));
  }
  // The documents state this one in a note, without a number of its own; it belongs to the rules of
  // fast_moe.
  if (is_before_2_4(inputs.fms_hf_tuning_version)) {
    broken(ReasonCode::kRule6, named("fast_moe", inputs.fast_moe) +
                                   " needs fms_hf_tuning_version 2.4.0 or later, not " +
                                   inputs.fms_hf_tuning_version);
  }
  const ModelFacts* model = models.find(inputs.model_name);
  const int64_t experts = model == nullptr ? 0 : model->experts().value_or(0);
  if (experts % inputs.fast_moe != 0) {
    broken(ReasonCode::kRule7, "num_local_experts " + std::to_string(experts) + " of " +
                                   inputs.model_name + " cannot be divided evenly by " +
                                   named("fast_moe", inputs.fast_moe));
  }
  return violations;
}

std::vector<Violation> validate(const Json& inputs, const ModelCatalog& models) {
  RuleInputs read;
  for (const auto& [property, value] : inputs.items()) read.set(property, value);
  return validate(read, models);
}

}  // namespace sftbench
