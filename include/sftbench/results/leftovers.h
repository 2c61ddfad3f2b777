// What a killed sweep or run leaves behind: the locks of the keys that it was measuring, which nobody
// holds any more, and the unfinished files of those keys. Results are never among them.
#pragma once

#include <filesystem>

#include "sftbench/results/key_lock.h"

namespace sftbench {

// Removes them from the folder of an experiment; what another process has locked stays. Files of
// keys without a lock file are left alone: whoever removed the lock has taken care of them.
void remove_leftovers(const std::filesystem::path& folder);

// Those of one key, for its new holder.
void remove_unfinished(const KeyLock& lock);

}  // namespace sftbench
