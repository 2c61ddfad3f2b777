#include "trackers/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/shared_file.h"
#include "trackers/tracker.h"

namespace sftbench {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error) {
  throw TrackerFailure("cannot write " + path.string() + ": " + std::strerror(error));
}

}  // namespace

AppendedFile::AppendedFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  if (mode == Mode::kNew) {
    file_ = OwnedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0666));
    if (!file_) cannot_write(path_, errno);
    return;
  }
  try {
    file_ = open_to_append(path_, "write");
  } catch (const InputError& error) {
    throw TrackerFailure(error.what());
  }
}

void AppendedFile::write(std::string_view piece) {
  struct stat before {
  }, after{};
  ::fstat(file_.get(), &before);
  if (write_whole(file_.get(), piece)) return;
  const int error = errno;
  // No part of a piece stays: a reader would stumble over it. What others appended does.
  ::fstat(file_.get(), &after);
  const bool is_part = after.st_size - before.st_size < static_cast<off_t>(piece.size());
  [[maybe_unused]] const int cut = is_part ? ::ftruncate(file_.get(), before.st_size) : 0;
  cannot_write(path_, error);
}

}  // namespace sftbench
