#include "sftbench/results/standing_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {

StandingFolder::StandingFolder(std::filesystem::path path)
    : path_(std::move(path)), folder_(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!folder_) throw InputError(path_.string() + ": cannot open: " + std::strerror(errno));
}

std::optional<std::string> StandingFolder::gone() const {
  struct stat named = {}, opened = {};
  if (::stat(path_.c_str(), &named) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return path_.string() + " was removed or renamed";
    return path_.string() + " cannot be reached any more: " + std::strerror(errno);
  }
  if (::fstat(folder_.get(), &opened) != 0) return path_.string() + ": " + std::strerror(errno);
  const bool same = named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  return same ? std::nullopt : std::optional(path_.string() + " was replaced");
}

}  // namespace sftbench
