// What peft calls things in a folder of adapters (PeftModel.save_pretrained). Runs write such
// folders (engine/save_state.cpp) and read them (engine/restore_state.cpp).
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";

// What peft calls a trained parameter in its file.
std::string adapter_tensor_name(const std::string& parameter);

// The same of a parameter of the base that is saved with its adapter, as an embedding that has
// grown.
std::string base_tensor_name(const std::string& parameter, const Json& peft_config);

// The content of adapter_config.json. `peft_config` is Tuning's own. peft finds the base model by
// `base_model`, which may be empty.
std::string adapter_config_text(Json peft_config, const std::string& base_model);

}  // namespace sftbench
