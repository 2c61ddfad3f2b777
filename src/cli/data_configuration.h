// The data configuration of fms-hf-tuning (dataprocessor, datasets, data_handlers): each dataset is a file or a folder with
// one form of entries.
#pragma once

#include <functional>
#include <string>

#include "sftbench/base/yaml.h"

namespace sftbench {

// Takes a property's value; `path` is the key that says it.
using TakeValue =
    std::function<void(const std::string& property, YamlNode value, const std::string& path)>;

// What `node`, the value of the key dataprocessor or datasets, says. Errors: what has no equal here, by its name.
void read_data_processor(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                         const TakeValue& take);
void read_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   const TakeValue& take);

}  // namespace sftbench
