// The sets of LLaMA-Factory's dataset_info.json (data/parser.py there).
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/yaml.h"
#include "translate/data_configuration.h"

namespace sftbench {

struct RegisteredSets {
  std::vector<std::string> names;
  std::string folder;     // dataset_dir, which has dataset_info.json
  bool of_texts = false;  // stage pt: one text each
};

// The files and forms of `sets`. Errors: a name that is not there, and what has no equal here.
void read_registered_sets(const RegisteredSets& sets, const YamlNode& info,
                          Diagnostics& diagnostics, const TakeValue& take);

}  // namespace sftbench
