// What a killed sweep or run leaves behind: the locks of the keys that it was measuring, which
// nobody holds any more, and the unfinished files of those keys. Results are never among them.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "sftbench/results/key_lock.h"

namespace sftbench {

// Removes them from the folder of an experiment; what another process has locked stays. Files of
// keys without a lock file are left alone: whoever removed the lock has taken care of them.
void remove_leftovers(const std::filesystem::path& folder);

// Those of one key in the folder of its experiment, for its new holder.
void remove_unfinished(const std::filesystem::path& folder, const std::string& key);

// Keys with unfinished files: whether anybody works at them is not known.
std::set<std::string> keys_of_unfinished(const std::filesystem::path& folder);

}  // namespace sftbench
