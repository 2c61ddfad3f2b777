#include "translate/argument_names.h"

#include <map>
#include <set>
#include <sstream>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

using Names = std::map<std::string, ArgumentName>;

Names read_table() {
  Names names;
  for (const auto* rows : {&huggingface_arguments(), &other_arguments()}) {
    for (const auto& [keys, use, what, neutral] : *rows) {
      for (const std::string& key : parts_of(keys, ' ')) {
        const bool own = use == ArgumentUse::kProperty || use == ArgumentUse::kChoice ||
                         use == ArgumentUse::kRead;
        const std::string meaning = own && *what == '\0' ? key : what;
        names.insert({key, {use, meaning, parts_of(neutral, '|'), {}}});
      }
    }
  }
  for (const ArgumentChoice& choice : argument_choices()) {
    for (const std::string& key : parts_of(choice.keys, ' '))
      names.at(key).choices.push_back(&choice);
  }
  return names;
}

const Names& table() {
  static const Names kNames = read_table();
  return kNames;
}

}  // namespace

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

const ArgumentName* find_argument(const std::string& key) {
  const auto found = table().find(key);
  return found == table().end() ? nullptr : &found->second;
}

const std::vector<std::string>& argument_keys() {
  static const std::vector<std::string> kKeys = [] {
    std::vector<std::string> keys;
    for (const auto& [key, name] : table()) keys.push_back(key);
    return keys;
  }();
  return kKeys;
}

std::string argument_text(const YamlNode& node) {
  if (node.is_null()) return "None";
  if (node.is_sequence()) return node.items.empty() ? "[]" : "a list";
  if (node.is_mapping()) return "an object";
  if (node.value.is_boolean()) return node.value.get<bool>() ? "true" : "false";
  if (node.text == "True") return "true";
  return node.text == "False" ? "false" : node.text;
}

bool says_nothing(const YamlNode& node) {
  if (node.is_scalar()) return node.is_null() || trimmed(node.text).empty() || node.text == "None";
  return node.items.empty() && node.members.empty();
}

bool is_value(const YamlNode& node, const std::string& text) {
  if (argument_text(node) == text) return true;
  if (!node.is_scalar() || node.value.is_boolean()) return false;
  const Json mine = resolve_yaml_scalar(node.text), other = resolve_yaml_scalar(text);
  return mine.is_number() && other.is_number() && mine.get<double>() == other.get<double>();
}

bool is_section(const std::string& key) {
  static const std::set<std::string> kSections = {"accelerate_launch_args",
                                                  "accelerator_config",
                                                  "dataset_kwargs",
                                                  "deepspeed_config",
                                                  "dynamo_config",
                                                  "fsdp_config",
                                                  "lora_config",
                                                  "model_init_kwargs",
                                                  "model_quantization_config_kwargs",
                                                  "parallelism_config",
                                                  "peft_config",
                                                  "special_tokens",
                                                  "training_arguments",
                                                  "ipex_config",
                                                  "gradient_accumulation_kwargs",
                                                  "liger_kernel_config",
                                                  "tokens"};
  return kSections.count(key) > 0;
}

std::string key_in_section(const std::string& section, const std::string& key) {
  // Elsewhere their members' names mean something else, or nothing.
  static const std::set<std::string> kOwnNames = {"dataset_kwargs", "gradient_accumulation_kwargs",
                                                  "ipex_config",    "liger_kernel_config",
                                                  "special_tokens", "tokens"};
  if (kOwnNames.count(section) > 0) return section + "." + key;
  // transformers leaves out the beginning that accelerate's names have.
  return section == "fsdp_config" && !key.starts_with("fsdp_") ? "fsdp_" + key : key;
}

const std::string& meaning_of(const std::string& key) {
  const ArgumentName* name = find_argument(key);
  if (name == nullptr || name->use == ArgumentUse::kFixed || name->use == ArgumentUse::kIdle)
    return key;
  return name->what;
}

}  // namespace sftbench
