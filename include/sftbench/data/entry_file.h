// Files of entries, by their endings, and folders of them. Rows of Parquet, Arrow, CSV and TSV are
// read as JSON, and what is packed with gzip or zstd is unpacked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

#include "sftbench/data/entries.h"

namespace sftbench {

// The files that `path` stands for (base/data_files.h): .parquet, .arrow, .csv or .tsv, else JSON
// (data/jsonl.h). Rows of the former are read once and kept as JSON (data/spill_file.h), and errors
// count those of tables as lines. Who needs the first `most` entries alone opens no files behind
// these, and reads no more rows. InputError, RunError(kUnsupported) without Arrow.
Entries open_entries(const std::filesystem::path& path,
                     int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace sftbench
