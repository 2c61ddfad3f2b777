// Files of entries that are no JSON themselves: Parquet and Arrow, whose rows are read as JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "sftbench/data/jsonl.h"

namespace sftbench {

// A file by its ending: .parquet or .arrow, else JSON Lines or a JSON array. Rows of the former are
// held in memory, as JSON, at most `most` of them, and errors count them as lines. InputError,
// RunError(kUnsupported) without Arrow.
JsonlFile open_entries(const std::filesystem::path& path,
                       int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace sftbench
