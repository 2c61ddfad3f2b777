// Adapters as peft saves and loads them: a folder with adapter_model.safetensors and
// adapter_config.json (PeftModel.save_pretrained).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/tuning/tuning.h"

namespace sftbench {

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";

// What peft calls a trained parameter in its file.
std::string adapter_tensor_name(const std::string& parameter);

// The content of adapter_config.json, `peft_config` being Tuning's own. `base_model` as below.
std::string adapter_config_text(Json peft_config, const std::string& base_model);

// Writes what `tuning` made trainable. `base_model` is the name that peft finds the base by; it may
// be empty. InputError when the folder cannot be written.
void save_adapter(const std::filesystem::path& folder, const Tuning& tuning,
                  const std::vector<NamedParameter>& trained, const std::string& base_model);

// The method that a folder's adapter_config.json describes, without dropout; its values come with
// load_adapter(). InputError: what is missing or malformed. RunError(kUnsupported) naming the
// settings that change what an adapter computes and that are not known here (DoRA, rsLoRA, biases).
std::unique_ptr<Tuning> read_adapter_config(const std::filesystem::path& folder);

// Fills `trained` (of that method's apply()) from the folder's adapter_model.safetensors.
// InputError listing every missing, unexpected and wrongly shaped tensor.
void load_adapter(const std::filesystem::path& folder, const std::vector<NamedParameter>& trained);

}  // namespace sftbench
