// What a killed sweep leaves behind: the locks of the keys that it was measuring, which nobody
// holds any more, and the unfinished files of those keys. Results are never among them.
#pragma once

#include <filesystem>

namespace sftbench {

// Removes them from the folder of an experiment; what another sweep has locked stays. Files of keys
// without a lock file are left alone: `sftbench run` makes none.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace sftbench
