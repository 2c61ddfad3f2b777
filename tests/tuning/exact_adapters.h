// Adapters with drawn values, and what peft makes of them in float64 (tests/reference/adapters.py:
// EXACT_CASES).
#pragma once

#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/golden.h"
#include "sftbench/base/json.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {

inline const Json& exact_cases() {
  static const Json cases = read_json_file(SFTBENCH_TEST_DATA "/adapters/exact.json");
  return cases;
}

inline std::vector<std::string> exact_case_names() {
  std::vector<std::string> names;
  for (const auto& [name, golden] : exact_cases().items()) names.push_back(name);
  return names;
}

// As a name of a test.
inline std::string test_name_of(std::string text) {
  for (char& letter : text)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return text;
}

inline std::vector<std::string> names_in(const Json& lora, const char* key) {
  const Json found = lora.value(key, Json::array());
  if (found.is_string()) return {found.get<std::string>()};
  return found.get<std::vector<std::string>>();
}

inline TuningOptions exact_options(const Json& golden) {
  const Json& lora = golden["lora"];
  TuningOptions options;
  options.lora.rank = lora["r"];
  options.lora.alpha = lora["lora_alpha"];
  options.lora.dropout = 0;
  options.lora.target_modules = names_in(lora, "target_modules");
  options.lora.rank_stabilized = lora.value("use_rslora", false);
  options.lora.rank_pattern = lora.value("rank_pattern", Json::object());
  options.lora.alpha_pattern = lora.value("alpha_pattern", Json::object());
  options.lora.modules_to_save = names_in(lora, "modules_to_save");
  return options;
}

// Names and shapes in peft's file. Beside adapters of an embedding it saves the frozen weight, too.
inline std::map<std::string, std::vector<int64_t>> saved_by_peft(const Json& golden) {
  std::map<std::string, std::vector<int64_t>> saved;
  for (const auto& [name, shape] : golden["saved"].items())
    if (name.find(".base_layer.") == std::string::npos)
      saved[name] = shape.get<std::vector<int64_t>>();
  return saved;
}

inline std::unique_ptr<CausalLm> exact_base(const Json& golden) {
  const std::string folder = SFTBENCH_TEST_DATA "/training/" + golden["model"].get<std::string>();
  auto model =
      make_causal_lm(read_json_file(folder + "/config.json"), torch::kFloat64, test_device());
  if (std::filesystem::exists(folder + "/model.safetensors")) {
    load_weights(*model, folder);
  } else {
    draw_weights(*model);
  }
  return model;
}

// What of them is no part of the model itself.
inline void draw_adapters(const std::vector<NamedParameter>& trained) {
  const torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : trained) {
    if (parameter.name.find(".lora_") == std::string::npos) continue;
    torch::Tensor& tensor = *parameter.tensor;
    tensor.copy_(0.4 * drawn_values(parameter.name, tensor.numel()).view(tensor.sizes()));
  }
}

}  // namespace sftbench
