// A folder of results as a measurement or a sweep found it. Somebody may remove it, move it or put
// another in its place meanwhile: then what was written before is no longer where it is said to be.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

class StandingFolder {
 public:
  // InputError when it is not there. It is held open: no other folder is taken for it.
  explicit StandingFolder(std::filesystem::path path);

  // "PATH was removed or renamed", "PATH was replaced"; nothing while it stands.
  std::optional<std::string> gone() const;

 private:
  std::filesystem::path path_;
  OwnedFd folder_;
};

}  // namespace sftbench
