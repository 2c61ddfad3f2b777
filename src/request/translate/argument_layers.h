// The keys of argument files, one file upon another: what a later file says comes before what an
// earlier one says of the same thing, under whatever name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/yaml.h"

namespace sftbench {

struct ArgumentMember {
  std::string key;   // "fsdp_sharding_strategy"
  std::string path;  // where it stands: "fsdp_config.fsdp_sharding_strategy"
  YamlNode node;
};

struct ArgumentLayer {
  Diagnostics diagnostics;  // of the file
  std::vector<ArgumentMember> members;
};

// In the order of `paths`, without what a later file says, too. `notes` gets a line for each key
// that gives way to another value. InputError: a file that cannot be read.
std::vector<ArgumentLayer> read_argument_layers(const std::vector<std::string>& paths,
                                                std::vector<std::string>& notes);

// `node` where it is a mapping. Where it is a text as transformers takes it,
// '{"use_reentrant": false}', the mapping that it says. Nothing for anything else.
std::optional<YamlNode> mapping_of(const YamlNode& node);

// "arguments.yaml:3: learning_rate".
std::string place_of(const std::string& file, int line, const std::string& path);

}  // namespace sftbench
