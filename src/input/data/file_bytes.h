// The bytes of a file of data: as they stand in it, or unpacked. What a file is, its first bytes
// say; what is no data is refused by what it is.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace sftbench {

enum class Packing { kNone, kGzip, kZstd };

// InputError for a Git LFS pointer, a web page, an archive and other files that hold no entries.
// `is_table`: the file is known for a table of Parquet or Arrow.
Packing packing_of(const std::filesystem::path& path, bool is_table = false);

class FileBytes {
 public:
  virtual ~FileBytes() = default;

  // The bytes that come next, which stay until the following call; empty behind the last ones.
  // InputError where the file is damaged.
  virtual std::string_view next() = 0;
};

// RunError(kUnsupported) for zstd without the system's library.
std::unique_ptr<FileBytes> open_bytes(const std::filesystem::path& path, Packing packing);

// ".csv" of data.csv.gz and of data.csv.
std::string unpacked_extension(const std::filesystem::path& path);

}  // namespace sftbench
