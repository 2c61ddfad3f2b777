// Files: whole reads, memory maps, and writes that leave either the whole file or nothing.
//
// Whatever is read is a regular file, or a link to one. Nothing else is ever opened: a pipe that
// nobody writes to would wait forever, a device may never end, and opening one may start something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

// A regular file, open to read. InputError ("PATH: is a pipe; expected a regular file", or the
// system's reason) when there is none.
OwnedFd open_regular_file(const std::filesystem::path& path);

// Nothing that is read whole is nearly as large: a dataset, an image of a disk or the weights were
// named by mistake.
constexpr size_t kMostBytesReadWhole = size_t{1} << 30;

// The whole file. InputError (path and the system's reason) when it cannot be read or is larger
// than `most_bytes`.
std::string read_file(const std::filesystem::path& path, size_t most_bytes = kMostBytesReadWhole);

// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder:
// a reader sees the old content or the new, also after a crash or on a full disk.
// Makes missing folders. InputError (path and the system's reason) when it cannot be written.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

// Who chose a path to write to. A link, a pipe or a device that the user names is written through.
// At a place of the program's own a link is replaced, and what is neither a link nor a regular file
// is an InputError.
enum class NamedBy { kProgram, kUser };

// The same for content that is too large to hold: appended piece by piece, there only after
// commit(). Until then the file has no name where the file system allows it (O_TMPFILE), so that
// not even a killed process leaves anything behind; elsewhere it has a temporary one that the
// destructor removes.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, NamedBy named_by = NamedBy::kProgram);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::string_view content);
  void commit();

 private:
  std::filesystem::path path_, folder_, temporary_;
  bool direct_;  // to a pipe or a device, which gets what is appended at once
  int fd_ = -1;
  bool named_ = false;  // `temporary_` stands in the folder
};

// A read-only memory map of a whole file; unmapped on destruction. InputError when it cannot be
// opened or is larger than `most_bytes`.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path, uint64_t most_bytes = UINT64_MAX);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_bytes_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// A file read piece by piece. Unlike a map, what was read does not count as this process's memory,
// and a file that somebody shortens meanwhile gives an error instead of a fault. Safe to read from
// many threads.
class RandomAccessFile {
 public:
  // InputError when it cannot be opened.
  explicit RandomAccessFile(std::filesystem::path path);

  // Reads up to `size_bytes` bytes from `offset_bytes` on; fewer only at the end of the file.
  // InputError when it cannot be read.
  size_t read_at(uint64_t offset_bytes, char* buffer, size_t size_bytes) const;

 private:
  std::filesystem::path path_;
  OwnedFd file_;
};

// Where the files that ship with the program are found (`experiments/`, `config/`, `datasets/`):
// SFTBENCH_HOME, else <folder of the executable>/../share/sftbench, else the source tree it was
// built from. InputError naming the places that were tried when there is none.
std::filesystem::path resource_directory();

// $XDG_DATA_HOME/sftbench or ~/.local/share/sftbench: generated datasets. Not created here.
std::filesystem::path user_data_directory();

// $XDG_CACHE_HOME/sftbench or ~/.cache/sftbench: token counts and other derived data. Not created
// here.
std::filesystem::path user_cache_directory();

}  // namespace sftbench
