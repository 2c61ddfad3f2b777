// Data as commands take them: a file, a folder, a dataset of the hub, or the name of a generated
// one.
#pragma once

#include <optional>
#include <string>

namespace sftbench {

struct DataSearch {
  std::optional<std::string> hf_home;  // of the actuator's settings
  bool fetches = false;                // a dataset of the hub that is not here
  bool shows_progress = false;         // of what is fetched
};

// The path of `given` for data_files(). InputError naming `option` where it is not here;
// RunError(kData) where it cannot be fetched. Shards that are missing are warned of.
std::string require_data(const std::string& option, const std::string& given,
                         const DataSearch& search);

// The same, or the file of a generated dataset, whose names have neither slash nor dot.
std::string require_dataset(const std::string& option, const std::string& given);

}  // namespace sftbench
