// Names in peft's files: "base_model.model." + the parameter's name, DoRA's magnitudes without
// ".weight", and "prompt_embeddings" as it is.
#include "sftbench/tuning/adapter_files.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {

std::string adapter_tensor_name(const std::string& parameter) {
  constexpr std::string_view kMagnitudes = ".lora_magnitude_vector", kWeight = ".weight";
  if (parameter == "prompt_embeddings") return parameter;
  if (parameter.ends_with(std::string(kMagnitudes) + std::string(kWeight)))
    return "base_model.model." + parameter.substr(0, parameter.size() - kWeight.size());
  return "base_model.model." + parameter;
}

std::string base_tensor_name(const std::string& parameter, const Json& peft_config) {
  const bool wraps = peft_config.at("peft_type") == "LORA";  // a tuner around the model
  if (!wraps) return "base_model." + parameter;
  const size_t leaf = parameter.rfind('.');
  const std::string module = parameter.substr(0, leaf);
  const auto targets = peft_config.at("target_modules").get<std::vector<std::string>>();
  const bool adapted = std::any_of(targets.begin(), targets.end(), [&](const std::string& target) {
    return is_lora_target(module, target);
  });
  return "base_model.model." + module + (adapted ? ".base_layer" : "") + parameter.substr(leaf);
}

std::string adapter_config_text(Json peft_config, const std::string& base_model) {
  check(!peft_config.is_null(), "a method with adapters is saved");
  peft_config["base_model_name_or_path"] = base_model.empty() ? Json() : Json(base_model);
  return json_text(peft_config, 2) + "\n";
}

}  // namespace sftbench
