// Names in peft's files: "base_model.model." + the linear's name + ".lora_A.weight", DoRA's magnitudes without ".weight",
// and "prompt_embeddings" as it is.
#include "sftbench/tuning/adapter_files.h"

#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"

namespace sftbench {

std::string adapter_tensor_name(const std::string& parameter) {
  constexpr std::string_view kMagnitudes = ".lora_magnitude_vector", kWeight = ".weight";
  if (parameter.ends_with(std::string(kMagnitudes) + std::string(kWeight)))
    return "base_model.model." + parameter.substr(0, parameter.size() - kWeight.size());
  const bool of_linear =
      parameter.ends_with(".lora_A.weight") || parameter.ends_with(".lora_B.weight");
  return of_linear ? "base_model.model." + parameter : parameter;
}

std::string base_tensor_name(const std::string& parameter, const Json& peft_config) {
  const bool wraps = peft_config.at("peft_type") == "LORA";  // a tuner around the model
  return (wraps ? "base_model.model." : "base_model.") + parameter;
}

std::string adapter_config_text(Json peft_config, const std::string& base_model) {
  check(!peft_config.is_null(), "a method with adapters is saved");
  peft_config["base_model_name_or_path"] = base_model.empty() ? Json() : Json(base_model);
  return json_text(peft_config, 2) + "\n";
}

}  // namespace sftbench
