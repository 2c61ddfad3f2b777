// The sets of data that other programs' argument files list: the alignment handbook's
// dataset_mixture, and axolotl's datasets.
#pragma once

#include <string>

#include "sftbench/base/yaml.h"
#include "translate/data_configuration.h"

namespace sftbench {

// Errors: what has no equal here, by its name.
void read_handbook_mixture(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take);
void read_axolotl_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                           const TakeValue& take);

}  // namespace sftbench
