// JSON as YAML that people can read, by yaml-cpp: block style, texts of several lines as they are.
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

// One document, which begins with "---". Every YAML reader gets `value` back: a text that would be
// taken for something else, as "8" or "true", stands in quotes.
std::string yaml_document(const Json& value);

}  // namespace sftbench
