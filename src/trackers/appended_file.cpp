#include "trackers/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sftbench/base/shared_file.h"
#include "trackers/tracker.h"

namespace sftbench {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, int error) {
  throw TrackerFailure("cannot write " + path.string() + ": " + std::strerror(error));
}

}  // namespace

// A pipe of that name blocks nobody.
AppendedFile::AppendedFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  const int begin = mode == Mode::kNew ? O_EXCL : O_APPEND;
  file_ = OwnedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | begin, 0666));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) cannot_write(path_, errno);
  if (!S_ISREG(status.st_mode)) cannot_write(path_, EINVAL);
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
