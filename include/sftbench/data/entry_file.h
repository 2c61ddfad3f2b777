// Files of entries, by their endings, and folders of them. Rows of Parquet and Arrow are read as JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "sftbench/data/entries.h"

namespace sftbench {

// The files that `path` stands for (base/data_files.h): .parquet or .arrow, else JSON Lines or a JSON
// array. Rows of the former are read once and kept as JSON (data/spill_file.h), and errors count them
// as lines. Who needs the first `most` entries alone opens no files behind these, and reads no more
// rows. InputError, RunError(kUnsupported) without Arrow.
Entries open_entries(const std::filesystem::path& path,
                     int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace sftbench
