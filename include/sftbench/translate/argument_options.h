// Options for what the documents fix and a user may change: learning rate, LoRA, data, tokenizer.
// Each is a property of the experiments under a shorter name, so that --learning-rate 2e-5 is
// --set learning_rate=2e-5, except that a text is taken as it is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sftbench/space/space.h"

namespace sftbench {

struct ArgumentOption {
  const char* option;    // "--learning-rate"
  const char* property;  // "learning_rate"
  const char* type;      // of its value in help; null: a flag
  const char* help;
};

// All of them, in the order of the help.
const std::vector<ArgumentOption>& argument_options();

// What LoRA's experiment has and that of full tuning has not.
std::vector<std::string> adapter_properties();

struct GivenOption {
  const ArgumentOption* option;
  std::string text;
};

std::vector<GivenValue> given_values(const std::vector<GivenOption>& given);

// A scalar: of a text that is one whatever it looks like, or as YAML resolves it.
YamlNode text_node(const std::string& text);
YamlNode scalar_node(const std::string& text);

}  // namespace sftbench
