// Looks up the keys of argument_table.h.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/yaml.h"
#include "translate/argument_table.h"

namespace sftbench {

// "a|b" at each '|': a, b.
std::vector<std::string> parts_of(const std::string& text, char separator);

struct ArgumentName {
  ArgumentUse use;
  std::string what;
  std::vector<std::string> neutral;
  std::vector<const ArgumentChoice*> choices;
};

// nullptr: no key of a program that is known.
const ArgumentName* find_argument(const std::string& key);
const std::vector<std::string>& argument_keys();

// true, false and None also for Python's spelling in quotes, as fms-hf-tuning's configurations have
// it.
std::string argument_text(const YamlNode& node);
// No value, an empty text, an empty list or mapping: it leaves the key to other files.
bool says_nothing(const YamlNode& node);
// Whether `node` is the value that `text` writes: 1 and 1.0, true and True are the same.
bool is_value(const YamlNode& node, const std::string& text);

// Mappings whose members are arguments themselves.
bool is_section(const std::string& key);
// The key of a section's member in the table: those of fsdp_config may lack their beginning.
std::string key_in_section(const std::string& section, const std::string& key);
// What a key says something about: the property, or one name of those that say the same.
const std::string& meaning_of(const std::string& key);

}  // namespace sftbench
