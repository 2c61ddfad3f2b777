// Names of arguments in the files of other programs, and what they are here.
#pragma once

#include <map>
#include <set>
#include <string>

namespace sftbench {

// Keys that are a property under another name, or under its own.
const std::map<std::string, std::string>& argument_properties();
// Keys whose one value is what the program does; any other has no equal. As text.
const std::map<std::string, std::set<std::string>>& fixed_arguments();
// Keys that change nothing here whatever they say: why.
const std::map<std::string, std::string>& arguments_without_effect();
// Keys that people will look for: what works instead.
const std::map<std::string, std::string>& argument_advice();
// Mappings whose members are arguments themselves.
bool is_section(const std::string& key);
// What a key says something about: the property, or one name of those that say the same.
const std::string& meaning_of(const std::string& key);

}  // namespace sftbench
