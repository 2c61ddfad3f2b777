// The data configuration of fms-hf-tuning (dataprocessor, datasets, data_handlers): each dataset is
// a file or a folder with one form of entries.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/yaml.h"

namespace sftbench {

// Takes a property's value; `path` is the key that says it.
using TakeValue =
    std::function<void(const std::string& property, YamlNode value, const std::string& path)>;

// What `node`, the value of the key dataprocessor or datasets, says. Errors: what has no equal
// here, by its name. `notes` get what is taken for something that is alike.
void read_data_processor(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                         const TakeValue& take);
void read_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   const TakeValue& take, std::vector<std::string>& notes);

// What one set of a list says, and its share in a mixture.
using ReadSet = std::function<std::optional<double>(
    const YamlNode& set, const std::string& path, Diagnostics& diagnostics, const TakeValue& take)>;

// A list of sets: one is the training data, several are the property data_mixture.
void read_sets(const YamlNode& list, const std::string& path, Diagnostics& diagnostics,
               const TakeValue& take, const ReadSet& read_set);

}  // namespace sftbench
