// Bytes that are appended once and read at any place: in memory while they are few, those behind in
// a file without a name, which is gone with the process. What is read of it is the system's cache,
// not this process's memory, so that data need not fit memory.
//
// The file is in TMPDIR, else in the user's cache folder: /tmp may itself be memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

class SpillFile {
 public:
  static constexpr size_t kMostBytesInMemory = size_t{64} << 20;

  explicit SpillFile(size_t most_bytes_in_memory = kMostBytesInMemory);

  // Where they begin. Not safe for concurrent calls. RunError(kData): the file cannot be made, or
  // its disk is full.
  uint64_t append(std::string_view bytes);

  // REQUIRES: they were appended at once. Safe for concurrent calls that no append() is beside.
  // RunError(kData) when the file cannot be read.
  void read(uint64_t begin, char* buffer, size_t size_bytes) const;

  uint64_t size_bytes() const { return in_memory_ + in_file_; }

 private:
  size_t most_bytes_;
  std::unique_ptr<char[]> memory_;        // pages that nothing was written to are no memory
  uint64_t in_memory_ = 0, in_file_ = 0;  // bytes
  std::filesystem::path folder_;
  OwnedFd file_;
};

}  // namespace sftbench
