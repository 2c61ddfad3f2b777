// A file that grows in pieces, each of them written whole or taken back: what is there can be read
// while the run goes on, and after a full disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

class AppendedFile {
 public:
  enum class Mode { kNew, kAppend };

  // Makes the folders on the way. TrackerFailure (path and the system's reason), as of write().
  AppendedFile(std::filesystem::path path, Mode mode);

  void write(std::string_view piece);

 private:
  std::filesystem::path path_;
  OwnedFd file_;
};

}  // namespace sftbench
